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
// The rule of the budget (design section 3): in flight is what the ledger holds and what live
// facts show; used is in flight plus Ready nodes that are unavailable for any other reason. A
// healthy node starts only if used stays within the limit; a node that is already unavailable
// starts only if in flight stays within it. A node that was offline before it was touched costs
// no budget and is not touched; one that goes offline afterwards keeps its slot until a deadline,
// then it counts as failed. Enough failed nodes halt the rollout.
//
// Plan (plan.go) runs a list of steps. Each step is a function or a small type in its own file
// and uses nothing from the steps after it. All steps use the nodes that a Fleet keeps between
// decisions (fleet.go), and the facts derived from each node (facts.go, node.go).
package rollout
