// Package operation decides the next step of an operation on one node (design section 4):
// from the wanted operation, the stored record and the observed state, Next returns the
// current task, the record to store and the effects to carry out. It is pure: no context,
// client, logger or clock.
//
//	observe ─► Next ─► store the Record ─► carry out the Effects ─► observe …
//
// Every effect is recorded before it is carried out, and its preconditions fail when the
// cluster has changed since it was observed. Tasks on the host have no effect here: the node
// agent reads the record (NodeUpgrade.RequestedTasks), carries out the tasks that have begun,
// and reports.
//
//	          ┌──────────── retry or skip of a task ────────────┐
//	          ▼                                                 │
//	(accept) Running ──── touched and failed ───► Failed, Quarantined (kept cordoned)
//	          │                                                 │ abort, withdrawn, or an operation
//	          │ all done, or aborted, deferred,                 │ of another rollout
//	          │ failed without being touched                    │
//	          ▼                                                 │
//	      Releasing ◄───────────────────────────────────────────┘
//	          │ pending restarts awaited, deletions fenced,
//	          │ driver-upgrade taint removed, uncordoned
//	          ▼
//	Done, Failed, Deferred, Aborted, Quarantined
//
// Until it is granted its slot, an operation only prechecks the node and pulls images. It is
// then prepared and waits for the slot without a deadline. The grant is recorded before the
// node is touched, restarts the operation's deadline, and repeats the precheck. An operation
// that ends before the grant is deferred or aborted.
//
// Failed counts against the version. Deferred does not: the operation is retried after
// Backoff. When an operation fails after something of the new version was put on the node,
// the node stays cordoned, because it is not known to work. The next operation of its rollout takes
// the cordon over (CordonedBy); unless it is done, the node stays cordoned too. So does one whose target changed
// after the driver was deleted and before it was verified. A rollback is an ordinary
// operation, created when the DaemonSets have gone back to the previous revision; if it
// fails, the node is quarantined.
//
// # Tasks
//
// Each kind of task has a type that defines when it is done, what to try while it is current,
// and what a missed deadline means: precheck, prepull, cordon, evict, replace (replaceDriver
// for the driver), restart, three verifications, soak, uncordon. The table has a row for
// each; an operation with any other task is rejected.
//
// A task once done stays done while later ones run, unless the observed state contradicts it.
// Before Done, everything observable is checked again.
//
// Before the driver's pod is deleted, the node must be empty, tainted against users of the device
// by a taint, and free of their pods ([ADR 0009]) and of other processes that have it open, as
// far as the agent may see them.
//
// # Files
//
// A file uses those below it:
//
//	next.go                      the decision
//	lifecycle.go                 accepts, grants, abandons and ends an operation early
//	run.go, override.go          the current tasks; retry and skip by a person
//	release.go, end.go           releases the node; records the end
//	table.go, drained.go         all tasks; whether one still needs the node empty
//	precheck.go … soak.go        the tasks
//	task.go                      the interface of a kind of task
//	otherplugin.go               the device plugin that another gr has to replace
//	changes.go                   what a decision changes, and its effects
//	events.go                    the events of a stored change
//	facts.go, limits.go          what a decision reads; the deadlines
//	idle.go                      whether an operation without a request may touch the node
//	holders.go                   the processes outside of pods that have a device open
//	objects.go, taint.go,
//	otherupgrader.go             the facts read from Kubernetes objects
//	verification.go              what is left to do on a node whose pods are at their targets
//	backoff.go, reasons.go       when an unsuccessful operation is retried; all reasons
//
// [ADR 0009]: docs/adr/0009-device-taint.md
package operation
