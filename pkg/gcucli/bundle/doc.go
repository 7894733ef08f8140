// Package bundle writes a tarball for whoever helps. Nothing gets into it but
// through Objects and Text, which take secrets out first (redact.go):
//
//   - values of environment variables, but for names that are known to be harmless
//   - values of fields, headers, flags and annotations whose name tells of a secret
//   - the annotation of kubectl apply, which repeats the object, and managedFields
//   - in any text: tokens, passwords in addresses and after their names, private keys
//
// Secrets and ConfigMaps have no place in it: a Secret that is given all the same
// loses its data.
package bundle
