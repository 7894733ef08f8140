// Package daemonupdater is the controller that upgrades DaemonSets whose updateStrategy is OnDelete.
// Decisions and reports are computed by pure packages below it.
//
//	Reconcile                    one pass over a group (reconciler.go, steps.go), kept in pass/
//	  observe (groups.go, nodes.go)        caches -> observed/ -> rollout.Input, rollout.Fleet
//	  decide  (pins.go)                    rollout/, with the pins of pinning/
//	  ledger  (ledgers.go)                 DaemonRollout status, compare-and-swap, before any node is touched
//	  act     (delete.go), nodewriter/     delete pods with UID and version preconditions, write operations
//	          (rollback.go)                return to the last known good revision after a halt
//	  report  reporter/                    report/ -> conditions of pods, tasks of NodeUpgrades; metrics/
//
//	watch/                       which groups an event enqueues, and which nodes to read again
//	access/                      reads through the cache and past it; parallel and denied requests
//	heartbeat/                   when the kubelets of nodes on probation last renewed their Leases
//	pinning/                     which nodes are kept at an earlier revision than the target
//	deletion/                    memory of deleted pods and denied requests: when to retry, how many at once
//	gating/, gatekeeper/         decide about pods at the gate; release them, or create earlier ones
//	globaljobs/                  runs the global tasks of a plan as Jobs
//	notification/, notifier/     CloudEvents of entries in the record; delivers them to a webhook
//	policystatus/                a controller of its own: reports in each UpgradePolicy whether it is valid
//
// All DaemonSets of one GcuResource form one rollout group; any other annotated DaemonSet is a
// group of one. Between passes only a copy of the caches is kept (pass/fleet.go), and rebuilt at every
// start; everything that must survive is in the ledger.
//
// A slot of the ledger names the pod that may be deleted, and its resourceVersion. Only that pod
// at that version is deleted, so a manager that is interrupted between the ledger and the
// deletion, or that resumes after its lease has expired, stays within the budget. The slot is
// kept until that pod is replaced, or until a write to it rules the deletion out (rollout/fence.go).
//
// A rollback is stored with the ledger before a template or a gr is changed, and the ledger is
// checked once more right before the change. One gap remains, because a lease does not fence: a
// manager that is suspended between that check and the change may roll back a rollout that
// another manager has since resumed. Even then it changes only the objects that it saw, because their
// resourceVersion is a precondition.
package daemonupdater
