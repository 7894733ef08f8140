package request

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Begin returns a new operation for an order, or, with known, the one that an order with
// the same key started. operations are those of this node, hold is nil if the node is not
// held, and node is its last known state. With offline, an order for the latest needs no
// pod.
func Begin(operations []Operation, hold *topsv1.NodeHold, node *Node, order Order, key string, offline bool, now time.Time) (o Operation, known bool, refusal *Refusal) {
	sequence := nextOperation(operations)
	id := OperationID(node.Name, key, sequence, now)
	if i := slices.IndexFunc(operations, func(o Operation) bool { return o.ID == id }); i >= 0 {
		if operations[i].Order != order {
			return Operation{}, false, Refuse(ReasonKeyReused, "The Idempotency-Key was used for another request, operation %s: use a new one.", id)
		}
		return operations[i], true, nil
	}
	if i := Unfinished(operations); i >= 0 {
		refusal := Refuse(ReasonOperationRunning, "Operation %s has not ended: wait for it with node-agent ota watch, or GET /v1/operations/%[1]s?wait=30s.", operations[i].ID)
		refusal.Operation = operations[i].ID
		return Operation{}, false, refusal
	}
	if hold != nil {
		return Operation{}, false, NodeHeld(hold)
	}
	parts, refusal := node.choose(order)
	if refusal != nil && (!offline || !order.Latest) {
		return Operation{}, false, refusal
	}
	return Operation{Sequence: sequence, ID: id, Order: order, Accepted: Seconds(now), Queued: true, Parts: parts}, false, nil
}

// choose returns the parts of an operation, or why it cannot start. For an order without a
// component there may be no parts: nothing is outdated.
func (n *Node) choose(order Order) ([]Part, *Refusal) {
	var parts []Part
	found := false
	for _, p := range n.Placed() {
		ds := p.DaemonSet
		if named := order.Component == ds.Component || order.Component == ds.Ref.Name; order.Component != "" && !named {
			continue
		}
		wanted, refusal := Decide(p.Pod, n.Name)
		if refusal == nil && ds.Strategy != daemonset.OTA {
			refusal = Refuse(ReasonNotOTA, "DaemonSet %s/%s has the update strategy %q, not OTA: its nodes are not upgraded by requests.",
				ds.Ref.Namespace, ds.Ref.Name, ds.Strategy)
		}
		switch {
		case order.Component == "" && refusal != nil: // up to date, or not upgraded by requests
			continue
		case order.Component != "" && found:
			return nil, Refuse(ReasonAmbiguous, "More than one DaemonSet on this node is called %s: name one by its own name, GET /v1/status lists them.", order.Component)
		case refusal != nil:
			return nil, refusal
		}
		found = true
		parts = append(parts, Part{Component: ds.Component, DaemonSet: wanted.DaemonSet, Pod: wanted.Pod, Revision: wanted.Revision, State: Queued})
	}
	if order.Component != "" && !found {
		return nil, Refuse(ReasonComponentMissing, "There is no component %.80q on this node: GET /v1/status lists them.", order.Component)
	}
	return parts, nil
}
