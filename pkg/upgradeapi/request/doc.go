// Package request holds what callers of the REST API send: bodies and blueprints, the
// resulting gr, and why requests are refused. It is pure: the handlers read files and the
// API server.
package request
