// Package gating decides about pods that wait at the scheduling gate of the admission policy
// gcu-operator-gate (docs/adr/0020).
//
//	a pod of a DaemonSet is created with its newest template
//	  | the revision is settled, or a slot of its node names it   the policy lets it pass
//	  v
//	at the gate
//	  | its node has a slot that is for it too, had the revision before,
//	  | or there is no other one that could run there            Release: the gate is removed
//	  v
//	Restore: a pod of the revision that the node had, or of the last known good one, is created on the
//	node; the DaemonSet controller keeps it, because it is scheduled, and deletes the one at the gate
//
// On a node that is pinned to an earlier revision (package pinning), only that one is restored.
//
// Nothing here depends on why a node was not granted the revision: a wave, a window, a pause, a halt, a
// hold or a missing request all mean that it has no slot. What a slot is for depends on requests and limits:
// rollout.Decision.GetsTarget.
package gating
