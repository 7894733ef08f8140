// Package journal stores small values on this node's disk, so that the requests to a node,
// and the work begun on it, survive the process and the node.
//
// There is one file per value, so that a torn file costs one value:
//
//	<id>.json            {"checksum": SHA-256 of the value's bytes, "entry": ...}
//	<id>.json.previous   the previous generation, if the kind keeps it, or the same one again
//	*.corrupt            unusable files, set aside for a person
//	.new-*               unfinished; removed when the journal is opened
//	.complete            exists while no value can be missing
//
// A process that uses journals first locks the directory above them (Lock): two would overwrite each other's values.
//
// A file is complete or absent: it is written under a temporary name, synced and renamed, and
// then the directory is synced. When Put returns nil, the value survives a power failure;
// when it returns an error, either the previous value or the new one is stored.
package journal
