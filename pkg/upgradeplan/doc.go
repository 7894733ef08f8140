// Package upgradeplan says which tasks an upgrade has and in which order they
// run. It is pure: no context, client, logger, clock or I/O; the same input
// gives the same plan. It runs nothing and knows no facts of a cluster.
//
// The model is that of the upgrade framework (contract statements 91 to 97,
// decisions D22 and D23, design section 4):
//
//	Task     n1_driver_replace       one action on one target on one host
//	Stage    [Task, Task]            tasks of one host, at the same time
//	Job      [Stage, Stage, …]       stages of one host, one after the other
//	Batch    [Job, Job, …]           jobs, at the same time
//	Mission  [Batch, Batch, …]       batches, one after the other
//
// A plan comes about in steps, each of which can be used alone:
//
//	      nodes: what is deployed, what changed        logic Book
//	          │  Narrow: as if less had changed            │
//	          ▼                                            │
//	      Generate ◄───────────────────────────────────────┤ which actions, and when
//	          │ []Task                                     │
//	          ▼                                            │
//	      Arrange ◄────────────────────────────────────────┤ in which order, as which jobs
//	          │ ▲                                          │
//	          │ └── Batches: waves, control plane, size ◄──┘
//	          ▼
//	      Mission ──► Cut ──► Mission ──► Arrange, to re-batch it
//	          │                  │
//	          ▼                  ▼
//	Table, JSON, Mermaid     Job.Progress: what may run now
//	                         Mission.Result: done, fail, undo
//
// The Book is the only place that knows an order. It lists actions (how their
// tasks become jobs, and how they are undone), targets (what needs which action
// because of what, and how much a change disturbs the node) and steps. By
// DefaultBook every step is grouped by host, so that a node has one job:
//
//	precheck ► prepull ► cordon ► evict
//	  ► replace driver ► verify driver
//	  ► replace toolkit ► restart-runtime ► verify runtime
//	  ► replace devicePlugin ► verify allocatable
//	  ► replace exporter, gfd, nfd
//	  ► soak ► uncordon
//
// What did not change is left out, with three rules of the book: a new driver
// replaces what uses the device as well; restarts and checks belong to what
// made them necessary; a change that only replaces pods has no precheck,
// cordon, eviction, soak or uncordon.
//
// # Less than the whole plan
//
// There are two ways, and they differ. Narrow asks for fewer components before
// the plan is made: narrowed to a driver, the plan still has the cordon and the
// eviction that a driver needs. Cut takes tasks out of a plan at the user's
// word, and nothing else stays: it is for a part of a plan (only the prechecks
// and prepulls, only the first wave), for one task alone, and for plans that
// were changed by hand.
//
// # For those who run a plan
//
// A job is run by asking Job.Progress again after each change, with the outcome
// of every task as the facts show it. Nothing is remembered here, so a program
// that died goes on at the right task. To retry a task is to call its outcome
// NotDone, to skip it Skipped; Book.Undo names the task that takes one back. A
// replace is done when the pod is at the wanted revision, available, and, where
// the driver of the node is replaced too, younger than the driver's.
//
// A node whose turn should come last of all, such as the operator's own, goes
// into a wave of its own.
package upgradeplan
