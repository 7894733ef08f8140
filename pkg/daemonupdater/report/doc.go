// Package report says what comes out of a decision (pkg/daemonupdater/rollout) for all to
// see, and what is stored of it.
//
//	status.go, ledger.go, urgency.go   status of the DaemonRollout, and when it is written
//	events.go                          events about the GcuResource or DaemonSet
//	nodes.go, podcondition.go, needupgrade.go, imageready.go
//	                                   conditions of pods
//	requests.go                        tasks of NodeUpgrades, which answer requests
//	rollback.go                        what becomes of a halt: back to the last known good revision
//
// It is pure: the controller writes.
package report
