// Package operation decides what happens on one node during an operation
// (design section 4): from what was asked for and what can be seen, Next says
// which task is current, what to record and what to do. It is pure: no context,
// client, logger or clock.
//
//	observe ─► Next ─► store the Record ─► carry out the Effects ─► observe …
//
// Nothing is done that was not recorded before, and every effect has a
// precondition that fails when the world is not as it was seen. Tasks of the host
// have no effect here: the node agent reads the record (NodeUpgrade.AskedOfHost),
// does what it finds begun, and reports.
//
//	          ┌──────────── retry or skip of a task ────────────┐
//	          ▼                                                 │
//	(accept) Running ──── touched and failed ───► Failed, Quarantined (held)
//	          │                                                 │ another operation,
//	          │ all done, or aborted, deferred,                 │ abort, withdrawn
//	          │ failed without being touched                    │
//	          ▼                                                 │
//	      Releasing ◄───────────────────────────────────────────┘
//	          │ what may still happen is waited for or fenced,
//	          │ device open, uncordoned
//	          ▼
//	Done, Failed, Deferred, Aborted, Quarantined
//
// Until it is granted, which is when the node has its slot, an operation only
// prechecks the node and pulls images; then it is prepared and waits, as long as it
// takes. The grant is recorded before anything of the node is touched, the deadlines
// count from it, and the node is prechecked once more. One that ends before was
// never begun: it is deferred or aborted.
//
// Failed counts against the version, Deferred does not: it goes to the back of
// the queue, for as long as Backoff says. What failed once something of the new
// version was on the node leaves it cordoned: it is not known to work. A rollback
// is an operation like any other, made when the DaemonSets have gone back; when it
// fails the node is in quarantine.
//
// # Tasks
//
// Each kind of task has a type that says when it is done, what is tried while it is
// current, and what a missed deadline means: precheck, prepull, cordon, evict, replace
// (replaceDriver for the driver), restart, three verifications, soak, uncordon. The
// table has a row for each; an operation with any other task is not accepted.
//
// A task that was seen done stays done while later ones run, unless something
// contradicts it, and all that can be seen is looked at again before Done.
//
// Before the driver's pod is deleted the node is seen empty, closed for the users
// of the device by a taint, and free of them ([ADR 0009]).
//
// # Files
//
// A file uses those below it:
//
//	next.go                      the decision
//	life.go                      accepts, grants, abandons and cuts short an operation
//	run.go, override.go          the current tasks; what a person asks of one
//	release.go, end.go           gives the node back; records the end
//	table.go, drained.go         all tasks; whether one needs the node empty
//	precheck.go … soak.go        the tasks
//	task.go                      what a kind of task has to say
//	changes.go, snapshot.go      what a decision changes, and what it reads
//	events.go                    the events of what was stored
//	facts.go, limits.go          what is read, and the deadlines
//	objects.go, taint.go,
//	otherupgrader.go             what a decision reads of Kubernetes objects
//
// [ADR 0009]: docs/adr/0009-device-taint.md
package operation
