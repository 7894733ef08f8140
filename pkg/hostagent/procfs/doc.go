// Package procfs parses what /proc reports about a process: which device of the accelerator it has
// open (devices.go), who it is, and in which container and pod it runs (proc(5), cgroups(7)). It is pure:
// pkg/hostagent reads the files.
package procfs
