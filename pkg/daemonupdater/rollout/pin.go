package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pin keeps the pod of one member on one node at an earlier revision than the target (docs/adr/0021).
// Package pinning decides which pins exist; a rollout brings nodes to them as to a target.
type Pin struct {
	Node string
	UID  types.UID
	// Machine was Node.Machine when the node was pinned: the pin holds for the machine, even with another
	// Node object of the same name.
	Machine string
	// Member is its key. Revision is the hash at which the node is kept, From the hash of the target that
	// it went back from: with another target the pin ends.
	Member, Revision, From string
	// Reason is the reason of the failure because of which the node went back, ReasonUndone if a person asked for it.
	Reason  Reason
	Message string
	Since   time.Time
	// Requested was Node.Requested when it was pinned: a later request for From ends the pin.
	Requested time.Time
	// Failed: the node counts as failed for a halt, until a person resumes the rollout.
	Failed bool
}

// AppliesTo reports whether a pin is for a machine, not for another one with the same node name. If either machine is "",
// it is not known, and the pin holds.
func (p *Pin) AppliesTo(machine string) bool {
	return p.Machine == "" || machine == "" || p.Machine == machine
}
