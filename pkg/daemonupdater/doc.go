// Package daemonupdater upgrades DaemonSets whose updateStrategy is OnDelete. It is the
// controller; the deciding and reporting is pure, in packages of its own.
//
//	watch/                       which groups an event enqueues, and which nodes to read again
//	access/                      reads through the cache and past it; requests in parallel, refused ones
//	Reconcile                    one pass over a group (reconciler.go, steps.go), kept in pass/
//	  observe (groups.go, nodes.go)        caches -> observed/ -> rollout.Input, rollout.Fleet
//	  decide                               rollout/
//	  ledger  (ledgers.go)                 DaemonRollout status, compare-and-swap, before any node is touched
//	  act     (delete.go), nodewriter/     delete pods with UID and version preconditions, order operations on nodes
//	          (rollback.go)                return to the last known good revision after a halt
//	  report  reporter/                    report/ -> conditions of pods, tasks of NodeUpgrades; metrics/
//
// All DaemonSets of one GcuResource form one rollout group; any other annotated DaemonSet is a
// group of one. What is kept between passes is a copy of the caches (pass/fleet.go), rebuilt at every
// start; what must survive is in the ledger.
//
// A slot of the ledger names the pod that may be deleted, and its resourceVersion. Only that pod
// at that version is deleted, so a manager that is interrupted between the ledger and the
// deletion, or that resumes after its lease has expired, stays within the budget. The slot is
// kept until that pod is replaced, or was written to so that the deletion can no longer happen
// (rollout/fence.go).
//
// A rollback is stored with the ledger before a template or a gr is changed, and the ledger is
// checked once more right before the change. One gap remains, because a lease does not fence: a
// manager that is suspended between that check and the change may roll back a rollout that
// another manager has since resumed. Even then it changes only what it saw: the resourceVersion
// is the precondition.
package daemonupdater
