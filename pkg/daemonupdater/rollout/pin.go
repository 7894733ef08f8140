package rollout

import (
	"slices"
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
	// Failed: the node counts as failed for a halt, until a person resumes the rollout.
	Failed bool
}

// sizeOfPins returns how many bytes pins take.
func sizeOfPins(pins []Pin) (bytes int) {
	for i := range pins {
		p := &pins[i]
		bytes += failureBytes + targetBytes + len(p.Node) + len(p.Machine) + len(p.Member) + len(p.Message)
	}
	return bytes
}

// pinned returns a node with the revisions that it is pinned to in its pods.
func (f *Fleet) pinned(node Node) Node {
	pins := f.pins[node.Name]
	if len(pins) == 0 && !slices.ContainsFunc(node.Pods, func(p Pod) bool { return p.Pin != "" }) {
		return node
	}
	node.Pods = slices.Clone(node.Pods)
	for i := range node.Pods {
		pod := &node.Pods[i]
		pod.Pin = ""
		for k := range pins {
			if pins[k].Member == f.group.keyOf(pod) && pins[k].Holds(node.Machine) {
				pod.Pin = pins[k].Revision
			}
		}
	}
	return node
}

// Holds reports whether a pin is for a machine, "" if it is not known, and not for another one of the same name.
func (p *Pin) Holds(machine string) bool {
	return p.Machine == "" || machine == "" || p.Machine == machine
}

// pin brings the nodes of the fleet to the pins of a ledger, which replace those before.
func (f *Fleet) pin(pins []Pin, now time.Time) {
	next := map[string][]Pin{}
	for _, p := range pins {
		next[p.Node] = append(next[p.Node], p)
	}
	before := f.pins
	f.pins = next
	for name := range before {
		f.pinAgain(name, before[name], now)
	}
	for name := range next {
		if _, done := before[name]; !done {
			f.pinAgain(name, nil, now)
		}
	}
}

// pinAgain derives the facts of a node again if its pins have changed.
func (f *Fleet) pinAgain(name string, before []Pin, now time.Time) {
	if n := f.nodes.byName[name]; n != nil && !slices.Equal(before, f.pins[name]) {
		f.Set(n.Node, now)
	}
}

// pinMessage says why the node is kept at an earlier revision.
func (n *fleetNode) pinMessage() string {
	for i := range n.pins {
		if n.pins[i].Holds(n.Machine) {
			return n.pins[i].Message
		}
	}
	return ""
}

// wentBack returns the nodes that failed and are pinned since, without those that failed again.
func wentBack(l *Ledger) (names []string) {
	for i := range l.Pins {
		p := &l.Pins[i]
		if p.Failed && !slices.Contains(names, p.Node) && !slices.ContainsFunc(l.Failures, func(f Failure) bool { return f.Node == p.Node }) {
			names = append(names, p.Node)
		}
	}
	return names
}
