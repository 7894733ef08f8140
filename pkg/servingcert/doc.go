// Package servingcert gives every replica of the manager a serving certificate of one CA, which clients
// can check:
//
//	Secret gcu-operator-ca      the CA and its key: created by the first manager, read by the others
//	ConfigMap gcu-operator-ca   ca.crt, for curl and Prometheus
//	ValidatingWebhookConfiguration gcu-operator-versions   caBundle, for the API server (config/webhook), if the manager may write it
//	in memory                   each replica's own certificate, of its names and addresses
//
// A certificate in memory lasts 90 days and is recreated when 30 are left; the CA lasts ten years, and in the
// last of them gets another ten with the same key and name, so that a copy of the old CA still verifies
// certificates of the renewed one, for as long as the copy is valid. To get another key, delete the Secret: every
// replica notices within seconds. The next CA is published together with those before for ten minutes, and certificates of it
// are served after three, when its clients have it, so that no client that follows the ConfigMap is interrupted. The exception is a
// replica that starts meanwhile: it has no certificate of the CA before, whose key is gone, and serves one of the next at once, which
// clients refuse until they have that, for about a minute. If such a replica makes the next CA, the one before is
// not published, and all serve the next at once.
//
// Where the CA cannot be kept (the role or the admission policy is that of an older version), the manager
// serves with a self-signed one that clients cannot verify, logs that, and tries again.
package servingcert
