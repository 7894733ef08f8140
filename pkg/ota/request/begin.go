package request

import (
	"regexp"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

var componentPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// Validate refuses an invalid component or idempotency key.
func (w Wanted) Validate(key string) *Refusal {
	if w.Component != "" && !componentPattern.MatchString(w.Component) {
		return Refuse(ReasonMalformed, "Malformed component %.80q: it is 1 to 253 letters, digits, '-' and '.'.", w.Component)
	}
	if len(key) > 255 {
		return Refuse(ReasonMalformed, "The Idempotency-Key is longer than 255 characters.")
	}
	return nil
}

// Begin completes a new operation, which no earlier call with the key has returned (Repeated). operations are those of this node, hold is nil if the node is not held, and node
// is its last known state. With offline, an operation for the latest needs no pod.
func (o Operation) Begin(operations []Operation, hold *topsv1.NodeHold, node *Node, key string, offline bool, now time.Time) (begun Operation, refusal *Refusal) {
	sequence := nextOperation(operations)
	id := OperationID(node.Name, key, sequence, now)
	if i := Unfinished(operations); i >= 0 {
		refusal := Refuse(ReasonOperationRunning, "Operation %s has not ended: wait for it with node-agent ota watch, or GET /v1/operations/%[1]s?wait=30s.", operations[i].ID)
		refusal.Operation = operations[i].ID
		return Operation{}, refusal
	}
	if hold != nil {
		return Operation{}, NodeHeld(hold)
	}
	parts, refusal := node.choose(o.Wanted, upgradedLast(operations))
	if refusal != nil && (!offline || !o.Wanted.Latest) {
		return Operation{}, refusal
	}
	return Operation{Sequence: sequence, ID: id, Wanted: o.Wanted, Accepted: Seconds(now), Queued: true, Parts: parts}, nil
}

// Repeated returns, with known, the operation that an earlier call with the same key returned; "" is no key. It is refused if that
// call wanted something else.
func (o Operation) Repeated(operations []Operation, nodeName, key string) (repeated Operation, known bool, refusal *Refusal) {
	if key == "" {
		return Operation{}, false, nil
	}
	returned, wanted, found := returnedFor(operations, OperationID(nodeName, key, 0, time.Time{}))
	if !found {
		return Operation{}, false, nil
	}
	if returned.Adopted { // what else the call wanted is lost
		wanted.Component, wanted.Latest = o.Wanted.Component, o.Wanted.Latest
	}
	if wanted != o.Wanted {
		return Operation{}, false, Refuse(ReasonKeyReused, "The Idempotency-Key was used for another request, operation %s: use a new one.", returned.ID)
	}
	return returned, true, nil
}

// Knows reports whether a call with a key has returned an operation, "" for none.
func Knows(operations []Operation, nodeName, key string) bool {
	_, _, found := returnedFor(operations, OperationID(nodeName, key, 0, time.Time{}))
	return key != "" && found
}

// returnedFor returns the operation that the call with a key returned, by the id that is derived from the key, and what that
// call wanted.
func returnedFor(operations []Operation, id string) (o Operation, wanted Wanted, found bool) {
	for _, o := range operations {
		switch {
		case o.ID == id:
			return o, o.Wanted, true
		case slices.Contains(o.RollbackKeys, id) && o.isRolledBack():
			return o, Wanted{Rollback: true}, true
		}
	}
	return Operation{}, Wanted{}, false
}

// isRolledBack reports whether the rollbacks that returned an operation have had their effect: part of it was withdrawn, its
// withdrawal is recorded, or it is itself a rollback, which has ended.
func (o Operation) isRolledBack() bool {
	return o.Withdrawn || o.Wanted.Rollback && o.End != nil || slices.ContainsFunc(o.Parts, func(p Part) bool { return p.State == Withdrawn })
}

// upgradedLast returns what the last operation upgraded that was not a rollback, nil if that did nothing: what was before it
// is not meant.
func upgradedLast(operations []Operation) (parts []Part) {
	var last Operation
	for _, o := range operations {
		if !o.Wanted.Rollback && o.Sequence > last.Sequence {
			last = o
		}
	}
	return slices.DeleteFunc(slices.Clone(last.Parts), func(p Part) bool { return p.State != Done && p.State != Failed })
}

// choose returns the parts of an operation, or why it cannot start. Without a component
// there may be no parts: nothing is outdated. last are the parts that a rollback without a component is about.
func (n *Node) choose(want Wanted, last []Part) ([]Part, *Refusal) {
	var parts []Part
	found := false
	for _, p := range n.named(want) {
		ds := p.DaemonSet
		wanted, refusal := want.decide(p, n.Name)
		switch {
		case want.Component == "" && (refusal != nil || want.Rollback && !upgraded(last, wanted)): // up to date, or not upgraded by requests
			continue
		case want.Component != "" && found:
			return nil, Refuse(ReasonAmbiguous, "More than one DaemonSet on this node is called %s: name one by its own name, GET /v1/status lists them.", want.Component)
		case refusal != nil:
			return nil, refusal
		}
		found = true
		parts = append(parts, Part{Component: ds.Component, DaemonSet: wanted.DaemonSet, Pod: wanted.Pod, Revision: wanted.Revision, State: Queued})
	}
	switch {
	case want.Component != "" && !found:
		return nil, Refuse(ReasonComponentMissing, "There is no component %.80q on this node: GET /v1/status lists them.", want.Component)
	case want.Rollback && !found:
		return nil, Refuse(ReasonNotNeeded, "No request of this node can be withdrawn: name the component that should go back to the previous revision (node-agent ota rollback COMPONENT, POST /v1/components/COMPONENT/rollback).")
	}
	return parts, nil
}

// named returns the pods that an operation may concern. If a DaemonSet with the wanted name belongs to a GcuResource, pods of other DaemonSets with
// that name are left out, because anyone with a namespace may create one.
func (n *Node) named(want Wanted) []Placed {
	list := slices.DeleteFunc(n.Placed(), func(p Placed) bool { return !want.names(p.DaemonSet) })
	if want.Component != "" && slices.ContainsFunc(list, func(p Placed) bool { return p.DaemonSet.Ours }) {
		list = slices.DeleteFunc(list, func(p Placed) bool { return !p.DaemonSet.Ours })
	}
	return list
}

// names reports whether an operation may concern a DaemonSet.
func (w Wanted) names(ds *DaemonSet) bool {
	return w.Component == "" || w.Component == ds.Component || w.Component == ds.Ref.Name
}

// upgraded reports whether parts brought a DaemonSet to the revision that it has.
func upgraded(parts []Part, has topsv1.UpgradeRequest) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.DaemonSet.UID == has.DaemonSet.UID && p.Revision == has.Revision })
}

// decide returns the request for a pod, without id and time, or why there is none.
func (w Wanted) decide(p Placed, nodeName string) (topsv1.UpgradeRequest, *Refusal) {
	if w.Rollback {
		return decideBack(p.Pod, nodeName)
	}
	wanted, refusal := Decide(p.Pod, nodeName)
	if ds := p.DaemonSet; refusal == nil && ds.Strategy != daemonset.OTA {
		refusal = Refuse(ReasonNotOTA, "DaemonSet %s/%s has the update strategy %q, not the update strategy OTA: its nodes are not upgraded by requests.",
			ds.Ref.Namespace, ds.Ref.Name, ds.Strategy)
	}
	return wanted, refusal
}
