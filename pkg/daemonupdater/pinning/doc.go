// Package pinning decides which nodes of a group are kept at an earlier revision than the target
// (docs/adr/0021).
//
//	a node at the target
//	  | a user asks for it (kubectl gcu task undo), or the node failed and the
//	  | policy says RollbackNode; the revision before still exists, and is not
//	  | below the floor of the policy
//	  v
//	pinned: the plan brings the node to the revision, and the gate keeps it there
//	  | another target, or a user (kubectl gcu task retry)
//	  v
//	like any other node
//
// The pins are part of the ledger, stored before a node is touched. The plan, the gate and the admission policy
// read only the pins, not why a node went back.
package pinning
