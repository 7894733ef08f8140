package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pin keeps the pod of one member on one node at an earlier revision than the target (docs/adr/0021).
// Package pinning decides which there are; the plan brings nodes to them like to a target.
type Pin struct {
	Node string
	UID  types.UID
	// Machine is Node.Machine when the node was pinned: the pin holds for the machine, also with another
	// Node object of the same name.
	Machine string
	// Member is a key. Revision is the hash that the node is kept at, From that of the target it is kept
	// from: with another target the pin ends.
	Member, Revision, From string
	// Reason is that of the failure for which the node went back, ReasonUndone if a person asked for it.
	Reason  Reason
	Message string
	Since   time.Time
	// Requested is Node.Requested when it was pinned: a later request for From ends the pin.
	Requested time.Time
	// Failed: the node counts as failed for a halt, until a person resumes the rollout.
	Failed bool
}

// Holds reports whether a pin is for a machine, "" if it is not known, and not for another one of the same name.
func (p *Pin) Holds(machine string) bool {
	return p.Machine == "" || machine == "" || p.Machine == machine
}
