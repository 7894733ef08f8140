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
package rollout
