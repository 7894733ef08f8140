// Package bundle writes a tarball for support. All content passes through Objects and Text,
// which redact secrets first (redact.go):
//
//   - values of environment variables, except of names that are known to be harmless
//   - values of fields, headers, flags and annotations whose names suggest a secret
//   - the annotation of kubectl apply, which repeats the object, and managedFields
//   - in any text: tokens, passwords in addresses and after their names, private keys
//
// Secrets and ConfigMaps should not be added; if they are, their data is removed.
package bundle
