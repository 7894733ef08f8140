// Kubectl-gcu is the kubectl plugin: it shows the state of GcuResources and their nodes,
// explains it, and controls upgrades. This package has flags, reads and writes; package display
// makes the output.
//
// There is a file for each command (root.go lists them). Commands share a terminal
// (output.go), a connection to the cluster (cluster.go), the limit of an upgrade (limit.go)
// and the exit codes (exit.go).
//
// Every write is a patch by field manager kubectl-gcu, with the resourceVersion that was read
// as precondition: concurrent changes are never overwritten. kubectl with the annotations of
// api/v1 can do the same.
package main
