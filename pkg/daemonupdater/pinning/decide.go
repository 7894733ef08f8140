package pinning

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Most is how many pins a group may have: they are in one object, and in the parameters of the admission policy.
const Most = 100

// Facts are what a decision about the pins of a group depends on.
type Facts struct {
	// Input of the plan, with the pins and failures of the ledger as stored.
	Input *rollout.Input
	// Gated reports whether the gate keeps pods of a member, by index, from starting before its node is granted it.
	Gated func(member int) bool
	// PolicyMissing: config/gate is not installed now. That may be for a moment, and what was pinned stays.
	PolicyMissing bool
	// RollsBack: the policy says that a node which fails goes back alone.
	RollsBack bool
	// Node returns a node as observed, nil if there is none.
	Node func(name string) *rollout.Node
	// Before returns the revision of a member that a node goes back to, or why there is none.
	Before func(member int, node string) (hash, why string)
	// Kept reports whether a revision of a member can still be restored.
	Kept func(member int, hash string) bool
	// Requests by people that are not answered.
	Asks []Ask
}

// Ask is what a person asks for a member on a node.
type Ask struct {
	ID, Node string
	Member   int
	// Verb is observed.VerbUndo or observed.VerbRetry.
	Verb string
	// From is the revision that the node is to leave, "" if it is whichever is the target.
	From string
	// Begun: the node was pinned for it.
	Begun bool
}

// AskKey identifies an ask: a node chooses the ids of its own.
type AskKey struct{ Node, ID string }

// Key returns the key of an ask.
func (a Ask) Key() AskKey { return AskKey{a.Node, a.ID} }

// Refusal is why an ask is not carried out.
type Refusal struct{ Reason, Message string }

// Reasons of refusals.
const (
	ReasonNoGate            = "NoGate"
	ReasonNotAtTarget       = "NotAtTarget"
	ReasonNoEarlierRevision = "NoEarlierRevision"
	ReasonTooManyPins       = "TooManyPins"
	ReasonNodeGone          = "NodeGone"
	ReasonOperationAtWork   = "OperationAtWork"
)

// Instead is what to do where one node cannot go back alone.
const Instead = "hold the node (kubectl gcu hold), or go back on all nodes (kubectl gcu rollback)"

// Next is what becomes of pins.
type Next struct {
	// Pins by node name, sorted, and the failures of nodes that are not pinned instead.
	Pins     []rollout.Pin
	Failures []rollout.Failure
	// Refused are the asks that are not carried out.
	Refused map[AskKey]Refusal
	// Asked are the asks because of which nodes are pinned now.
	Asked []AskKey
	// Waits says why no ask is decided now, with reason NoGate; "" if they are.
	Waits string
}

// NextOf decides about the pins of a group. While the group is blocked, or the policy of the gate is missing, all stays as it is.
func NextOf(f *Facts) Next {
	in := f.Input
	n := &Next{Failures: in.Ledger.Failures, Refused: map[AskKey]Refusal{}}
	if in.Blocked != nil || f.PolicyMissing {
		n.Pins = in.Ledger.Pins
		if f.PolicyMissing {
			n.Waits = "config/gate is not installed, without which no node is kept at an earlier version: install it again, or withdraw what is asked"
		}
		return *n
	}
	resumed := in.Resume != in.Ledger.Resumed
	for _, pin := range in.Ledger.Pins {
		if f.holds(&pin) && !f.isAskedAgain(&pin) {
			pin.Failed = pin.Failed && !resumed
			n.Pins = append(n.Pins, f.explained(pin))
		}
	}
	for _, ask := range f.Asks {
		f.answer(n, ask)
	}
	if f.RollsBack && !resumed && !in.Settings.Paused && !in.Ending {
		f.rollBack(n)
	}
	slices.SortFunc(n.Pins, func(a, b rollout.Pin) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Member, b.Member))
	})
	return *n
}

// holds reports whether a pin is still to be kept: the target is the one that it keeps from, the gate
// can keep it, and the node is not another machine by now.
func (f *Facts) holds(pin *rollout.Pin) bool {
	i := f.member(pin.Member)
	if i < 0 || f.Input.Members[i].Target != pin.From || !f.Gated(i) {
		return false
	}
	node := f.Node(pin.Node)
	return node == nil || pin.Holds(node.Machine)
}

// isAskedAgain reports whether a person asks under OTA, at the node and after it was pinned, for the target that it is kept from.
func (f *Facts) isAskedAgain(pin *rollout.Pin) bool {
	node := f.Node(pin.Node)
	return f.Input.Settings.Strategy == daemonset.OTA && node != nil && slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool {
		return p.Member == f.member(pin.Member) && p.Request != nil && p.Request.PodUID == p.UID && p.Request.Revision == pin.From && p.Request.Time.After(pin.Requested)
	})
}

func (f *Facts) member(key string) int {
	return slices.IndexFunc(f.Input.Members, func(m rollout.Member) bool { return m.Key == key })
}

// explained returns a pin with its message.
func (f *Facts) explained(pin rollout.Pin) rollout.Pin {
	pin.Message = fmt.Sprintf("%s is kept at revision %s, not %s (%s)", pin.Member, pin.Revision, pin.From, pin.Reason)
	if !f.Kept(f.member(pin.Member), pin.Revision) {
		pin.Message += ", which is not kept any more: a pod that goes waits at the gate; kubectl gcu task retry ends that"
	}
	return pin
}

// answer carries an ask out, or refuses it.
func (f *Facts) answer(n *Next, ask Ask) {
	if ask.Verb == observed.VerbRetry {
		f.free(n, ask)
		return
	}
	if slices.ContainsFunc(n.Pins, f.isOf(ask)) {
		return
	}
	pin, refusal := f.back(ask.Member, ask.Node)
	m := &f.Input.Members[ask.Member]
	switch {
	case !ask.Begun && refusal == nil && f.hasAnother(ask.Member, ask.Node):
		refusal = &Refusal{ReasonNotAtTarget, fmt.Sprintf("node %s does not have revision %s of %s: to keep it so, hold it (kubectl gcu hold)", ask.Node, m.Target, m.Key)}
	case ask.Begun || refusal == nil && ask.From != "" && ask.From != m.Target: // its pin has ended, and it is not for another target
		refusal = &Refusal{topsv1.ReasonRevisionChanged, fmt.Sprintf("the target of %s has changed since, or the node got it again", m.Key)}
	case refusal == nil && len(n.Pins) >= Most:
		refusal = &Refusal{ReasonTooManyPins, fmt.Sprintf("%d nodes are pinned already: roll out another revision", len(n.Pins))}
	}
	if refusal != nil {
		n.Refused[ask.Key()] = *refusal
		return
	}
	pin.Reason = rollout.ReasonUndone
	f.pin(n, pin)
	n.Asked = append(n.Asked, ask.Key())
}

// isOf returns a filter of the pins that an ask is about.
func (f *Facts) isOf(ask Ask) func(rollout.Pin) bool {
	key := f.Input.Members[ask.Member].Key
	return func(p rollout.Pin) bool { return p.Node == ask.Node && p.Member == key }
}

// free ends the pin of a node, and clears what failed on it with that component alone.
func (f *Facts) free(n *Next, ask Ask) {
	if node := f.Node(ask.Node); node != nil && node.Operation != nil {
		n.Refused[ask.Key()] = Refusal{ReasonOperationAtWork, fmt.Sprintf("node %s has operation %s: retry a task of it, or abort it (kubectl gcu abort)", ask.Node, node.Operation.ID)}
		return
	}
	key := f.Input.Members[ask.Member].Key
	n.Pins = slices.DeleteFunc(n.Pins, f.isOf(ask))
	n.Failures = slices.DeleteFunc(slices.Clone(n.Failures), func(failed rollout.Failure) bool {
		return failed.Node == ask.Node && len(failed.Targets) == 1 && failed.Targets[0].Member == key
	})
}

// pin adds pins of a node, in place of its failure.
func (f *Facts) pin(n *Next, pins ...rollout.Pin) {
	failed := false
	n.Failures = slices.DeleteFunc(slices.Clone(n.Failures), func(of rollout.Failure) bool {
		is := of.Node == pins[0].Node
		failed = failed || is
		return is
	})
	for _, pin := range pins {
		pin.Failed = failed
		n.Pins = append(n.Pins, f.explained(pin))
	}
}

// rollBack pins the nodes that failed to what they had before of all members that may have failed them.
func (f *Facts) rollBack(n *Next) {
	for _, failed := range f.Input.Ledger.Failures {
		if failed.Reason == rollout.ReasonNodeLost || slices.ContainsFunc(n.Pins, func(p rollout.Pin) bool { return p.Node == failed.Node }) {
			continue // it is not known that a revision is to blame, or it went back before
		}
		if pins := f.allBack(&failed); len(pins) > 0 && len(n.Pins)+len(pins) <= Most {
			f.pin(n, pins...)
		}
	}
}

// allBack returns the pins of a node that failed, nil if it cannot go back alone.
func (f *Facts) allBack(failed *rollout.Failure) (pins []rollout.Pin) {
	for _, t := range failed.Targets {
		i := f.member(t.Member)
		if i < 0 || f.Input.Members[i].Target != t.Revision {
			return nil
		}
		pin, refusal := f.back(i, failed.Node)
		if refusal != nil || f.hasAnother(i, failed.Node) && !f.has(i, failed.Node, pin.Revision) {
			return nil
		}
		pin.Reason = failed.Reason
		pins = append(pins, pin)
	}
	return pins
}

// hasAnother reports whether the pod of a member on a node is there to stay, and not at the target.
func (f *Facts) hasAnother(member int, name string) bool {
	return f.has(member, name, "") && !f.has(member, name, f.Input.Members[member].Target)
}

// has reports whether a node has a pod of a member that is there to stay, at a revision, "" for any.
func (f *Facts) has(member int, name, revision string) bool {
	return slices.ContainsFunc(f.Node(name).Pods, func(p rollout.Pod) bool {
		return p.Member == member && p.UID != "" && !p.Terminating && !p.Gated && (revision == "" || p.Revision == revision)
	})
}

// back returns the pin that brings a node back, or why it cannot go back alone.
func (f *Facts) back(member int, name string) (pin rollout.Pin, refusal *Refusal) {
	m, node := &f.Input.Members[member], f.Node(name)
	switch {
	case !f.Gated(member):
		return pin, &Refusal{ReasonNoGate, fmt.Sprintf("one node can go back alone only with the gate (the manager's flag --gate, Kubernetes 1.36) and update strategy OnDelete: DaemonSet %s would start its newest revision again; %s", m.Key, Instead)}
	case node == nil || !slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool { return p.Member == member }):
		return pin, &Refusal{ReasonNodeGone, fmt.Sprintf("%s does not run on node %s", m.Key, name)}
	case node.Operation != nil && (!node.Operation.Ours || !node.Operation.KeptCordoned):
		return pin, &Refusal{ReasonOperationAtWork, fmt.Sprintf("node %s has operation %s: wait for its end, or abort it (kubectl gcu abort)", name, node.Operation.ID)}
	}
	hash, why := f.Before(member, name)
	if hash == "" {
		return pin, &Refusal{ReasonNoEarlierRevision, why + "; " + Instead}
	}
	return rollout.Pin{Node: name, UID: node.UID, Machine: node.Machine, Member: m.Key, Revision: hash, From: m.Target,
		Since: f.Input.Now.Truncate(time.Second), Requested: node.Requested}, nil
}

// AskOf returns what is asked of a node for one of these members, by index; false if it is for none of them.
func AskOf(node string, asked *observed.Ask, members []observed.Member) (Ask, bool) {
	i := slices.IndexFunc(members, func(m observed.Member) bool {
		if asked.UID != "" {
			return asked.UID == m.DaemonSet.UID
		}
		return asked.Target == m.Component() && asked.Target != "" || asked.Target == m.DaemonSet.Name || asked.Target == m.DaemonSet.Namespace+"."+m.DaemonSet.Name
	})
	if i < 0 || daemonset.IsLeaving(members[i].DaemonSet) {
		return Ask{}, false
	}
	return Ask{ID: asked.ID, Node: node, Member: i, Verb: asked.Verb, From: asked.From, Begun: asked.Begun}, true
}
