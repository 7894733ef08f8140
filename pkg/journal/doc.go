// Package journal keeps small values on this node's disk, so that what was
// asked of a node and what was begun on it survive the process and the node.
//
// One file per value, so that one torn file costs one value:
//
//	<id>.json            {"checksum": SHA-256 of the value as it stands, "entry": ...}
//	<id>.json.previous   the generation before, when the kind keeps it
//	*.corrupt            what could not be used, set aside for a person
//	.new-*               unfinished; removed when the journal is opened
//
// A file is complete or absent: it is written under another name, synced and
// renamed, and then the directory is synced. When Put has returned nil, the
// value survives a power cut; when it has returned an error, the value before
// it is still there, or the new one is.
package journal
