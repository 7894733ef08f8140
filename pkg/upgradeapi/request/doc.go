// Package request is what callers of the REST API ask for: the bodies of their requests and
// the blueprints that these name, what they make of a gr, and why they are refused. It is
// pure: files and the API server are the handlers' business.
package request
