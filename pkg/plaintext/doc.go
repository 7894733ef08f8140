// Package plaintext makes text that others wrote safe to print. Messages in statuses, annotations
// and names in requests come from agents and users; control characters in them could move the
// cursor of a terminal, hide what was printed, or forge a line of a log.
//
// It is used where text leaves the programs:
//
//	terminals             Writer around standard output and error of kubectl gcu and node-agent;
//	                      Line for cells and messages; JSON and YAML for documents
//	support bundles       YAML and Text
//	logs                  package logging: Text for entries, Line for lines of files
//	events                the recorder of cmd/manager: Line
//	HTTP responses        Text around JSON, which stays the same JSON
//
// What is not printable is escaped as in JSON: \u001b. So the escaped form of a JSON document is
// the same document.
package plaintext
