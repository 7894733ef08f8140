// Package daemonupdater rolls DaemonSets whose updateStrategy is OnDelete.
//
//	observe (observe.go, facts.go)   caches -> rollout.Input
//	look    (view.go)                nodes that events were about -> rollout.Fleet
//	decide  (rollout/)               rollout.Plan, pure
//	ledger  (ledger.go, status.go)   DaemonRollout status, compare-and-swap, before any node is touched
//	act     (act.go)                 delete pods with a UID precondition
//	undo    (rollback.go, undo.go)   go back to the last known good revision after a halt
//	report  (needupgrade.go, tasks.go, events.go, metrics.go)
//
// All DaemonSets of one GcuResource form one rollout group; any other annotated
// DaemonSet is a group of one. A reconcile is one pass over one group. What is
// kept between passes is a copy of the caches (view.go), made anew at every start;
// what must survive is in the ledger.
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
