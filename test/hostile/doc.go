// Package hostile is the executable threat model: attacks on the operator, one per test, against
// the shipped manifests on a real API server. SECURITY.md names the test of each attack.
//
// A node agent is the ServiceAccount of config/rbac with the name of a node in its token, as the
// API server puts it there; a tenant is a user with the role admin in a namespace.
package hostile
