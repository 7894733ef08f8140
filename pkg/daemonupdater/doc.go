// Package daemonupdater rolls DaemonSets whose updateStrategy is OnDelete.
//
//	observe (observe.go, facts.go)   caches -> rollout.Input
//	decide  (rollout/)               rollout.Plan, pure
//	ledger  (ledger.go, status.go)   DaemonRollout status, compare-and-swap, before any node is touched
//	act     (act.go)                 delete pods with a UID precondition
//	undo    (rollback.go, undo.go)   go back to the last known good revision after a halt
//	report  (needupgrade.go, tasks.go, events.go, metrics.go)
//
// All DaemonSets of one GcuResource form one rollout group; any other annotated
// DaemonSet is a group of one. A reconcile is one pass over one group. It keeps
// no state that matters: what it knows is read again, what must survive is in
// the ledger.
//
// A slot of the ledger names the pod that may be deleted. Only such a pod is
// deleted, so a manager that is interrupted between the ledger and the deletion,
// or that was paused past its lease and wakes up, stays within the budget: the
// slot is held until that pod is replaced. One gap is left, because a lease is no
// fence: when the settings change while a manager sleeps between the two, the
// slot may be given up, and the one pod it named still be deleted.
package daemonupdater
