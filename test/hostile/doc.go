// Package hostile is the executable threat model: attacks with the rights of the shipped manifests,
// on a real API server. SECURITY.md names the test of each line of the model.
package hostile
