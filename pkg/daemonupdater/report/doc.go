// Package report turns a decision (pkg/daemonupdater/rollout) into what users see and what is
// stored.
//
//	status.go, ledger.go, urgency.go     status of the DaemonRollout, and when it is written
//	settled.go                           the settled revisions in it, for the gate
//	record.go                            the record in it: what happened in the last upgrades
//	rollback.go                          rollback after a halt to the last known good revision
//	plan.go                              result of the plan in force
//	events.go                            events on the GcuResource or DaemonSet
//	nodes.go, podcondition.go, needupgrade.go, imageready.go
//	                                     conditions of pods
//	requestresults.go, requests.go, pinrequests.go
//	                                     tasks of NodeUpgrades, which answer requests
//
// It is pure: the controller writes.
package report
