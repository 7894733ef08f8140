// Package daemonupdater rolls DaemonSets whose updateStrategy is OnDelete. It is the
// controller; what it decides with and what it says is pure, in packages of its own.
//
//	watch/                       which group an event wakes, and which nodes to read again
//	Reconcile                    one pass over a group (reconciler.go, steps.go)
//	  observe (groups.go, nodes.go)        caches -> observed/ -> rollout.Input, rollout.Fleet
//	  decide                               rollout/
//	  ledger  (ledgers.go)                 DaemonRollout status, compare-and-swap, before any node is touched
//	  act     (delete.go, operations.go)   delete pods with a UID precondition, order operations of nodes
//	          (rollback.go)                go back to the last known good revision after a halt
//	  report  (conditions.go, requests.go) report/ -> conditions of pods, tasks of NodeUpgrades; metrics/
//
// All DaemonSets of one GcuResource form one rollout group; any other annotated
// DaemonSet is a group of one. What is kept between passes is a copy of the caches
// (fleet.go), made anew at every start; what must survive is in the ledger.
//
// A slot of the ledger names the pod that may be deleted, and the resourceVersion
// in which it may. Only such a pod is deleted, so a manager that is interrupted
// between the ledger and the deletion, or that was paused past its lease and wakes
// up, stays within the budget: the slot is held until that pod is replaced, or
// was written to, so that the deletion cannot happen any more (rollout/fence.go).
//
// A rollback is stored with the ledger before a template or a gr is changed, and
// the ledger is looked at once more right before. One gap is left, because a
// lease is no fence: a manager that is paused between that look and the change
// may roll back what another one meanwhile let go on. What it changes is still
// only what it saw: the resourceVersion is the precondition.
package daemonupdater
