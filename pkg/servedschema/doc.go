// Package servedschema compares the schemas that an API server serves with Go types. An API server
// prunes fields that its CRD does not have, without an error: a manager newer than the CRDs would
// lose what it stores. (It refuses a server-side apply with such a field: see pkg/nodeapi.)
package servedschema
