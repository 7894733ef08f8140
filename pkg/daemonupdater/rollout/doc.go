// Package rollout decides how a rollout group goes on. It is pure: no context,
// client, logger or clock; the same Input gives the same Decision.
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
// The rule of the budget (design section 3): in flight is what the ledger holds
// and what live facts show; used is in flight plus Ready nodes that are
// unavailable for any other reason. A healthy node starts only if used stays
// within the limit; a node that is already unavailable starts only if in flight
// stays within it. A node that was offline before it was touched costs nothing
// and is not touched; one that is lost after keeps its slot until a deadline,
// then it counts as failed. Enough failed nodes halt the rollout.
//
// Plan (plan.go) is a list of steps. A step is a function or a small type in a file of its
// own, which uses nothing of the steps after it. All steps use what is kept of the nodes
// between decisions (fleet.go), and what follows from what is seen of one (facts.go, node.go).
package rollout
