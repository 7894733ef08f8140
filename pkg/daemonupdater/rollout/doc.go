// Package rollout decides the next steps of a rollout group. It is pure: no context, client,
// logger or clock; the same Input gives the same Decision.
//
// The unit of an upgrade is a node. Each node that should run the group is in
// one state:
//
//	           offline before touched
//	 pending ───────────────────────────► skipped
//	    │  ▲                                 │ Ready again
//	    │  └─────────────────────────────────┘
//	    │ gets a slot (ledger first)
//	    ▼
//	in-flight ──every pod at target and available──► updated
//	    │
//	    └──crash loop, or a deadline passed──► failed (slot freed)
//
// The rule of the budget (design section 3): a node is in flight if it has a slot in the ledger, or if
// live facts show that its pods are being replaced. A node uses the budget if it is in flight, or
// Ready and unavailable for any other reason. A healthy node starts only if the used budget stays
// within the limit; a node that is already unavailable starts only if the number in flight does. A
// node that was offline before it was touched costs no budget and is not touched; one that goes
// offline afterwards keeps its slot until a deadline, then it counts as failed. Enough failed nodes
// halt the rollout.
//
// Plan (plan.go) runs a list of steps. Each step is a function or a small type in its own file
// and uses nothing from the steps after it. All steps use the nodes that a Fleet keeps between
// decisions (fleet.go), and the facts derived from each node (node.go, facts.go, nodestate.go).
//
//	input.go, member.go, policy.go       what a decision depends on
//	ledger.go, clock.go, size.go         slots and failures; their deadlines; how many fit into one object
//	fleet.go, counts.go, nodeindex.go    what is kept of the nodes between decisions
//	facts.go                             the phase of a node by its own facts, such as skipped or passed over
//	group.go, operation.go, pull.go      what is left to do on a node, and what its images wait for
//	slotreview.go, fence.go              whether a slot is given back
//	failure.go, blame.go                 when a node has failed and why, and when a rollout halts
//	suspects.go, suspectpod.go           nodes that fail after they gave their slot back
//	budget.go, probation.go              how many nodes may be unavailable, or not proven
//	waves.go, soak.go, batches.go, division.go, window.go  waves and batches, and when they may start
//	startrules.go                        what else keeps a node from starting
//	candidates.go, lane.go, roundrobin.go  in which order nodes start
//	start.go, queue.go                   starts nodes, and those in their turn
//	deletion.go                          the next pod of each node in flight
//	prepare.go, operationchanges.go      prepares, grants and aborts operations
//	verdict.go, reason.go, summary.go    why each node waits
//	decision.go, questions.go            the result
//	preview.go, newcomponents.go         the simulation of a rollout
package rollout
