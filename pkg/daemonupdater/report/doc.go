// Package report turns a decision (pkg/daemonupdater/rollout) into what users see and what is
// stored.
//
//	status.go, ledger.go, urgency.go   status of the DaemonRollout, and when it is written
//	events.go                          events on the GcuResource or DaemonSet
//	nodes.go, podcondition.go, needupgrade.go, imageready.go
//	                                   conditions of pods
//	requests.go                        tasks of NodeUpgrades, which answer requests
//	rollback.go                        rollback after a halt to the last known good revision
//
// It is pure: the controller writes.
package report
