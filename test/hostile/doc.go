// Package hostile is the executable threat model: attacks on the operator, one per test, against
// the shipped manifests on a real API server. SECURITY.md names the test of each attack.
//
// A node agent is the ServiceAccount of config/rbac with the name of a node in its token, as the
// API server puts it there; a tenant is a user with the role admin in a namespace.
//
// The rights of a node agent (agent*_test.go) are tested with tokens that the API server issued, and with the
// real program. To test that the policy rejects a request, and not the role, the agent is also
// impersonated with a group that has all rights.
package hostile
