// Package pinning decides which nodes of a group are kept at an earlier revision than the target
// (docs/adr/0021).
//
//	a node at the target
//	  | a person asks for it (kubectl gcu task undo), or it failed and the
//	  | policy says RollbackNode; the revision before is kept, and not below
//	  | the floor of the policy
//	  v
//	pinned: the plan brings the node to the revision, and the gate keeps it there
//	  | another target, or a person (kubectl gcu task retry)
//	  v
//	like any other node
//
// The pins are part of the ledger. They are stored before a node is touched, and are all that the plan, the
// gate and the admission policy know of why a node went back.
package pinning
