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

// maxPins is how many pins a group may have: they are in one object, and in the parameters of the admission policy.
const maxPins = 100

// Facts are what a decision about the pins of a group depends on.
type Facts struct {
	// Input of the plan, with the pins and failures of the ledger as stored.
	Input *rollout.Input
	// Gated reports whether the gate keeps pods of a member, by index, from starting before its node is granted it.
	Gated func(member int) bool
	// PolicyMissing: config/gate is not installed now. That may be for a moment, and what was pinned stays.
	PolicyMissing bool
	// RollsBack: the policy says that a node which fails is rolled back individually.
	RollsBack bool
	// Node returns a node as observed, nil if there is none.
	Node func(name string) *rollout.Node
	// Before returns the revision of a member that a node goes back to, or why there is none.
	Before func(member int, node string) (hash, why string)
	// Kept reports whether a revision of a member can still be restored.
	Kept func(member int, hash string) bool
	// Requests are those by users without a final answer.
	Requests []Request
}

// Request is a user's request to pin a member on a node, or to end that.
type Request struct {
	ID, Node string
	Member   int
	// Verb is observed.VerbUndo or observed.VerbRetry.
	Verb string
	// From is the revision that the node is to leave, "" for the target.
	From string
	// Begun: the node was pinned for this request.
	Begun bool
}

// RequestKey identifies a request. It has the node because nodes choose the ids of their requests.
type RequestKey struct{ Node, ID string }

// Key returns the key of a request.
func (r Request) Key() RequestKey { return RequestKey{r.Node, r.ID} }

// Refusal is why a request is not carried out.
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

// RollbackAlternatives says what a user can do if one node cannot be rolled back individually.
const RollbackAlternatives = "hold the node (kubectl gcu hold), or go back on all nodes (kubectl gcu rollback)"

// Update is what a decision makes of the pins of a group.
type Update struct {
	// Pins, sorted by node name, and the failures of the nodes that are not pinned.
	Pins     []rollout.Pin
	Failures []rollout.Failure
	// Refused are the requests that are not carried out.
	Refused map[RequestKey]Refusal
	// PinnedFor are the requests for which nodes were pinned by this decision.
	PinnedFor []RequestKey
	// BlockedBy says why no request is decided now, with reason NoGate; "" if requests are decided.
	BlockedBy string
}

// DecideConfirmed decides about the pins of a group, of requests that are open: isOpen confirms each one for which a node is to be
// pinned, because a stale cache may show one that was withdrawn. The requests of a node are removed from the facts if one is not open; other
// nodes need not wait. Its errors are those of isOpen.
func DecideConfirmed(f *Facts, isOpen func(RequestKey) (bool, error)) (Update, error) {
	confirmed := map[RequestKey]bool{}
	for {
		update, changed := decidePins(f), false
		for _, key := range update.PinnedFor {
			if confirmed[key] {
				continue
			}
			open, err := isOpen(key)
			if err != nil {
				return Update{}, err
			}
			if confirmed[key] = true; !open {
				changed = true
				f.Requests = slices.DeleteFunc(f.Requests, func(r Request) bool { return r.Node == key.Node })
			}
		}
		if !changed {
			return update, nil
		}
	}
}

// decidePins decides for the requests of the facts. While the group is blocked nothing changes, and while the policy of the gate is
// missing only the failures that a resume clears: the plan of this pass carries the resume out, and none sees it again.
func decidePins(f *Facts) Update {
	in := f.Input
	update := &Update{Failures: in.Ledger.Failures, Refused: map[RequestKey]Refusal{}}
	resumed := in.Resume != in.Ledger.Resumed && in.Blocked == nil
	pins := slices.Clone(in.Ledger.Pins)
	for i := range pins {
		pins[i].Failed = pins[i].Failed && !resumed
	}
	if in.Blocked != nil || f.PolicyMissing {
		update.Pins = pins
		if f.PolicyMissing {
			update.BlockedBy = "no node can be kept at an earlier version because config/gate is not installed: install it again, or withdraw the request"
		}
		return *update
	}
	for _, pin := range pins {
		if f.stillApplies(&pin) && !f.isRequestedAgain(&pin) {
			update.Pins = append(update.Pins, f.explained(pin))
		}
	}
	for _, request := range f.Requests {
		f.answer(update, request)
	}
	if f.RollsBack && !resumed && !in.Settings.Paused && !in.Ending {
		f.rollBack(update)
	}
	slices.SortFunc(update.Pins, func(a, b rollout.Pin) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Member, b.Member))
	})
	return *update
}

// stillApplies reports whether a pin is to be kept: the target is still the one that it keeps the node from, the gate
// can keep it, and the node has not become another machine.
func (f *Facts) stillApplies(pin *rollout.Pin) bool {
	i := f.member(pin.Member)
	if i < 0 || f.Input.Members[i].Target != pin.From || !f.Gated(i) {
		return false
	}
	node := f.Node(pin.Node)
	return node == nil || pin.AppliesTo(node.Machine)
}

// isRequestedAgain reports whether, under OTA, the target that a pin keeps from was requested at the node after it was pinned.
func (f *Facts) isRequestedAgain(pin *rollout.Pin) bool {
	node := f.Node(pin.Node)
	return f.Input.Settings.Strategy == daemonset.OTA && node != nil && slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool {
		return p.Member == f.member(pin.Member) && p.Request != nil && p.Request.Pod.UID == p.UID && p.Request.Revision == pin.From && p.Request.RequestTime.After(pin.Requested)
	})
}

func (f *Facts) member(key string) int {
	return slices.IndexFunc(f.Input.Members, func(m rollout.Member) bool { return m.Key == key })
}

// explained returns a pin with its message.
func (f *Facts) explained(pin rollout.Pin) rollout.Pin {
	pin.Message = fmt.Sprintf("%s is kept at revision %s, not %s (%s)", pin.Member, pin.Revision, pin.From, pin.Reason)
	if !f.Kept(f.member(pin.Member), pin.Revision) {
		pin.Message += fmt.Sprintf("; revision %s no longer exists: a deleted or evicted pod waits at the gate until kubectl gcu task retry", pin.Revision)
	}
	return pin
}

// answer carries a request out, or refuses it.
func (f *Facts) answer(update *Update, request Request) {
	if request.Verb == observed.VerbRetry {
		f.free(update, request)
		return
	}
	if slices.ContainsFunc(update.Pins, f.isOf(request)) {
		return
	}
	pin, refusal := f.back(request.Member, request.Node)
	m := &f.Input.Members[request.Member]
	switch {
	case !request.Begun && refusal == nil && f.hasAnother(request.Member, request.Node):
		refusal = &Refusal{ReasonNotAtTarget, fmt.Sprintf("node %s does not have revision %s of %s: to keep it so, hold it (kubectl gcu hold)", request.Node, m.Target, m.Key)}
	case request.Begun || refusal == nil && request.From != "" && request.From != m.Target: // its pin has ended; the request is not for another target
		refusal = &Refusal{topsv1.ReasonRevisionChanged, fmt.Sprintf("the target of %s has changed since, or the node got it again", m.Key)}
	case refusal == nil && len(update.Pins) >= maxPins:
		refusal = &Refusal{ReasonTooManyPins, fmt.Sprintf("%d nodes are pinned already: roll out another revision", len(update.Pins))}
	}
	if refusal != nil {
		update.Refused[request.Key()] = *refusal
		return
	}
	pin.Reason = rollout.ReasonUndone
	f.pin(update, pin)
	update.PinnedFor = append(update.PinnedFor, request.Key())
}

// isOf returns a filter for the pins that a request is about.
func (f *Facts) isOf(request Request) func(rollout.Pin) bool {
	key := f.Input.Members[request.Member].Key
	return func(p rollout.Pin) bool { return p.Node == request.Node && p.Member == key }
}

// free ends the pin of a node, and clears the failures of that component alone; with the last pin of the node, also those
// of the component and others, for which the node would be pinned again.
func (f *Facts) free(update *Update, request Request) {
	if node := f.Node(request.Node); node != nil && node.Operation != nil {
		update.Refused[request.Key()] = Refusal{ReasonOperationAtWork, fmt.Sprintf("node %s has operation %s: retry a task of it, or abort it (kubectl gcu abort)", request.Node, node.Operation.ID)}
		return
	}
	key := f.Input.Members[request.Member].Key
	ends := slices.ContainsFunc(update.Pins, f.isOf(request))
	update.Pins = slices.DeleteFunc(update.Pins, f.isOf(request))
	last := ends && !hasPin(update.Pins, request.Node)
	update.Failures = slices.DeleteFunc(slices.Clone(update.Failures), func(failed rollout.Failure) bool {
		blames := slices.ContainsFunc(failed.Targets, func(t rollout.Target) bool { return t.Member == key })
		return failed.Node == request.Node && blames && (last || len(failed.Targets) == 1)
	})
}

// pin adds pins of a node, in place of its failure.
func (f *Facts) pin(update *Update, pins ...rollout.Pin) {
	failed := false
	update.Failures = slices.DeleteFunc(slices.Clone(update.Failures), func(of rollout.Failure) bool {
		is := of.Node == pins[0].Node
		failed = failed || is
		return is
	})
	for _, pin := range pins {
		pin.Failed = failed
		update.Pins = append(update.Pins, f.explained(pin))
	}
}

// rollBack pins the nodes that failed to the earlier revision of each member that may be to blame.
func (f *Facts) rollBack(update *Update) {
	for _, failed := range update.Failures { // without those that a retry cleared
		if failed.Reason == rollout.ReasonNodeLost || hasPin(update.Pins, failed.Node) {
			continue // a revision may not be to blame, or the node went back before
		}
		if pins := f.allBack(&failed); len(pins) > 0 && len(update.Pins)+len(pins) <= maxPins {
			f.pin(update, pins...)
		}
	}
}

func hasPin(pins []rollout.Pin, node string) bool {
	return slices.ContainsFunc(pins, func(p rollout.Pin) bool { return p.Node == node })
}

// allBack returns the pins of a node that failed, nil if it cannot be rolled back individually.
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

// hasAnother reports whether a node has a lasting pod of a member at another revision than the target.
func (f *Facts) hasAnother(member int, name string) bool {
	return f.has(member, name, "") && !f.has(member, name, f.Input.Members[member].Target)
}

// has reports whether a node has a pod of a member at a revision, "" for any, that is neither terminating nor at the gate.
func (f *Facts) has(member int, name, revision string) bool {
	return slices.ContainsFunc(f.Node(name).Pods, func(p rollout.Pod) bool {
		return p.Member == member && p.UID != "" && !p.Terminating && !p.Gated && (revision == "" || p.Revision == revision)
	})
}

// back returns the pin that brings a node back, or why the node cannot be rolled back individually.
func (f *Facts) back(member int, name string) (pin rollout.Pin, refusal *Refusal) {
	m, node := &f.Input.Members[member], f.Node(name)
	switch {
	case !f.Gated(member):
		return pin, &Refusal{ReasonNoGate, fmt.Sprintf("a single node can be rolled back only with the gate (the manager's flag --gate, Kubernetes 1.36) and update strategy OnDelete: DaemonSet %s would start its newest revision again; %s", m.Key, RollbackAlternatives)}
	case node == nil || !slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool { return p.Member == member }):
		return pin, &Refusal{ReasonNodeGone, fmt.Sprintf("%s does not run on node %s", m.Key, name)}
	case node.Operation != nil && (!node.Operation.Ours || !node.Operation.KeptCordoned):
		return pin, &Refusal{ReasonOperationAtWork, fmt.Sprintf("node %s has operation %s: wait for its end, or abort it (kubectl gcu abort)", name, node.Operation.ID)}
	}
	hash, why := f.Before(member, name)
	if hash == "" {
		return pin, &Refusal{ReasonNoEarlierRevision, why + "; " + RollbackAlternatives}
	}
	return rollout.Pin{Node: name, UID: node.UID, Machine: node.Machine, Member: m.Key, Revision: hash, From: m.Target,
		Since: f.Input.Now.Truncate(time.Second), Requested: node.Requested}, nil
}

// RequestFor returns the request of a node for one of these members, by index; false if it is for none of them.
func RequestFor(node string, r *observed.PinRequest, members []observed.Member) (Request, bool) {
	i := slices.IndexFunc(members, func(m observed.Member) bool {
		if r.UID != "" {
			return r.UID == m.DaemonSet.UID
		}
		return r.Target == m.Component() && r.Target != "" || r.Target == m.DaemonSet.Name || r.Target == m.DaemonSet.Namespace+"."+m.DaemonSet.Name
	})
	if i < 0 || daemonset.IsLeaving(members[i].DaemonSet) {
		return Request{}, false
	}
	return Request{ID: r.ID, Node: node, Member: i, Verb: r.Verb, From: r.From, Begun: r.Begun}, true
}
