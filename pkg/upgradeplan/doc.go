// Package upgradeplan computes which tasks an upgrade has and in which order they run. It is
// pure: no context, client, logger, clock or I/O; the same input gives the same plan. It runs
// nothing and reads no cluster state.
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
// A plan is made in steps, each of which can be used alone:
//
//	      nodes: what is deployed, what changed        logic book
//	          │  Narrow: as if less had changed            │
//	          ▼                                            │
//	      Generate ◄───────────────────────────────────────┤ which actions, and when
//	          │ []Task                                     │
//	          ▼                                            │
//	      Arrange ◄────────────────────────────────────────┤ in which order, as which jobs
//	          │ ▲                                          │
//	          │ └── batches: waves, control plane, size ◄──┘
//	          ▼
//	      Mission ──► Cut ──► Mission ──► Arrange, to re-batch it
//	          │                  │
//	          ▼                  ▼
//	Table, Mermaid           Job.Progress: what may run now
//
// Only the LogicBook defines an order. It lists actions (how their tasks become jobs, and how they
// are undone), targets (which actions they need for which changes, and how disruptive a
// change is) and steps. With DefaultBook every step is grouped by host, so that a node has
// one job:
//
//	precheck ► prepull ► cordon ► evict
//	  ► replace driver ► verify driver
//	  ► replace toolkit ► restart-runtime ► verify runtime
//	  ► replace devicePlugin, gcusharePlugin ► verify allocatable
//	  ► replace exporter, gfd, nfd
//	  ► soak ► uncordon
//
// Unchanged components are left out, with three rules of the book: a new driver also replaces
// the users of the device; restarts and verifications belong to the change that requires
// them; a change that only replaces pods has no precheck, cordon, eviction, soak or uncordon.
//
// # Partial plans
//
// There are two different ways. Narrow selects components before the plan is made: narrowed
// to a driver, the plan still has the cordon and the eviction that a driver needs. Cut
// removes exactly the given tasks from a plan, such as those that a plan edited by hand leaves out.
//
// # Running a plan
//
// To run a job, call Job.Progress after each change, with the outcome of every task according
// to the facts. The package has no state, so a restarted program resumes at the right task.
// To retry a task, report its outcome as NotDone; to skip it, as Skipped; LogicBook.InverseOf returns
// the task that undoes one. A replace is done when the pod is at the wanted revision,
// available and, if the driver of the node is replaced too, younger than the driver's pod.
//
// A node to be upgraded last, such as the operator's own, gets its own wave.
package upgradeplan
