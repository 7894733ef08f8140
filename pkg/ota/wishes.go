package ota

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Ordered is what an operation is to do.
type Ordered struct {
	// Component that is upgraded, "" for all that is outdated.
	Component string
	// Latest takes whatever revision is the newest when the operator is told.
	Latest bool
	// Key makes a repeated order the same operation; "" for none.
	Key string
}

// Upgrade begins an operation, or returns the one that an order with the same key began.
// When it returns nil the operation is durable on this node. Its errors are *Refusal.
func (in *Inbox) Upgrade(ctx context.Context, o Ordered) (Operation, error) {
	if refusal := o.validate(); refusal != nil {
		return Operation{}, refusal
	}
	if err := in.takeTurn(ctx); err != nil {
		return Operation{}, disconnected(err, wishNotKept)
	}
	defer in.endTurn()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	nodeUpgrade, err := in.observe(ctx)
	var now *snapshot
	if err == nil {
		now, err = in.look(ctx, true)
	}
	offline := err != nil
	if offline {
		if now, err = in.without(err, o); err != nil {
			return Operation{}, err
		}
	}
	r, known, refusal := in.take(now, o, offline)
	if refusal != nil {
		return Operation{}, refusal
	}
	if known {
		answer, _, err := in.Operation(r.ID)
		return answer, err
	}
	in.log.Info("Recording an operation", "operation", r.ID, "component", o.Component, "latest", o.Latest, "offline", offline)
	if err := in.book.put(r); err != nil {
		return Operation{}, notRecorded(err)
	}
	if !offline {
		if err := in.tell(ctx, nodeUpgrade, now); err != nil {
			in.log.Error(err, "Cannot tell the operator of an operation yet", "operation", r.ID)
			in.wake()
		}
	}
	in.publish(nil)
	answer, _, err := in.Operation(r.ID)
	return answer, err
}

var componentPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

func (o Ordered) validate() *Refusal {
	if o.Component != "" && !componentPattern.MatchString(o.Component) {
		return refuse(ReasonMalformed, "Malformed component %.80q: it is 1 to 253 letters, digits, '-' and '.'.", o.Component)
	}
	if len(o.Key) > 255 {
		return refuse(ReasonMalformed, "The Idempotency-Key is longer than 255 characters.")
	}
	return nil
}

// without returns what was last seen of the node when the API server is away. The error
// says that it refuses instead, or that nothing was seen and so nothing can be decided.
func (in *Inbox) without(cause error, o Ordered) (*snapshot, error) {
	if !away(cause) {
		return nil, disconnected(cause, wishNotKept)
	}
	last, err := in.seenNode.last()
	switch {
	case err == nil:
		return last, nil
	case o.Latest:
		return &snapshot{}, nil
	}
	return nil, disconnected(errors.Join(cause, err), wishNotKept)
}

// take makes the record of an order, or finds it: known.
func (in *Inbox) take(s *snapshot, o Ordered, offline bool) (r record, known bool, refusal *Refusal) {
	w := wish{Component: o.Component, Latest: o.Latest}
	sequence := nextOperation(in.book.records)
	id := operationID(in.nodeName, o.Key, sequence, in.clock.Now())
	if i := slices.IndexFunc(in.book.records, func(r record) bool { return r.ID == id }); i >= 0 {
		if in.book.records[i].Wish != w {
			return record{}, false, refuse(ReasonKeyReused, "The Idempotency-Key was used for another order, operation %s: take a new one.", id)
		}
		return in.book.records[i], true, nil
	}
	if i := running(in.book.records); i >= 0 {
		refusal := refuse(ReasonOperationRunning, "Operation %s has not ended: wait for it with node-agent ota watch, or GET /v1/operations/%[1]s?wait=30s.", in.book.records[i].ID)
		refusal.Operation = in.book.records[i].ID
		return record{}, false, refusal
	}
	if in.book.hold != nil {
		return record{}, false, nodeHeld(in.book.hold)
	}
	parts, refusal := choose(s, w, in.nodeName)
	if refusal != nil && (!offline || !o.Latest) {
		return record{}, false, refusal
	}
	return record{Sequence: sequence, ID: id, Wish: w, Accepted: seconds(in.clock.Now()), Queued: true, Parts: parts}, false, nil
}

// tell shows the requests of the operation that is queued to the operator, if there is
// one, and what of it still holds. now is what was seen of the node just before, nil to
// look.
func (in *Inbox) tell(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, now *snapshot) (err error) {
	i := running(in.book.records)
	if i < 0 || !in.book.records[i].Queued {
		return nil
	}
	if now == nil {
		if now, err = in.look(ctx, true); err != nil {
			return err
		}
	}
	next, entries := ask(in.book.records[i], now, in.entries, &nodeUpgrade.Status, in.nodeName, seconds(in.clock.Now()))
	if err := in.keep(entries); err != nil {
		return fmt.Errorf("recording the requests of operation %s: %w", next.ID, err)
	}
	if err := in.show(ctx, nodeUpgrade, trim(entries)); err != nil {
		return err
	}
	if err := in.book.put(next); err != nil {
		return fmt.Errorf("recording that operation %s was told: %w", next.ID, err)
	}
	in.log.Info("Sent an operation to the operator", "operation", next.ID, "state", next.state(), "requests", len(next.Parts))
	in.publish(nil)
	return nil
}

// Hold asks that nothing be started on this node, and Release that it may be again. What
// is in flight goes on; an operation that the operator was not told of is dropped.
// When they return nil the wish is durable on this node. Their errors are *Refusal.
func (in *Inbox) Hold(ctx context.Context, message string) (HoldState, error) {
	if len(message) > maxHoldMessage {
		return HoldState{}, refuse(ReasonMalformed, "The message is longer than %d bytes.", maxHoldMessage)
	}
	return in.setHold(ctx, &topsv1.NodeHold{Since: seconds(in.clock.Now()), Message: message})
}

// maxHoldMessage is the limit of the API.
const maxHoldMessage = 256

// Release takes a hold back.
func (in *Inbox) Release(ctx context.Context) (HoldState, error) { return in.setHold(ctx, nil) }

func (in *Inbox) setHold(ctx context.Context, hold *topsv1.NodeHold) (HoldState, error) {
	if err := in.takeTurn(ctx); err != nil {
		return HoldState{}, disconnected(err, wishNotKept)
	}
	defer in.endTurn()
	if before := in.book.hold; hold != nil && before != nil {
		hold.Since = before.Since
		if hold.Message == "" {
			hold.Message = before.Message
		}
	}
	in.log.Info("Recording whether this node is held", "held", hold != nil)
	if err := in.book.putHold(hold); err != nil {
		return HoldState{}, notRecorded(err)
	}
	if hold != nil {
		in.dropQueued()
	}
	in.publish(nil)
	state := HoldState{Held: hold != nil, Hold: hold}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodeUpgrade, err := in.observe(ctx)
	if err == nil {
		err = in.show(ctx, nodeUpgrade, in.showable(nodeUpgrade, in.entries))
	}
	if err != nil {
		in.log.V(1).Info("Cannot show yet whether this node is held", "cause", err.Error())
		state.Offline = offlineQueued
		in.wake()
	}
	seen, _ := in.board.read()
	state.AdministratorHold = administratorHold(seen.nodeUpgrade)
	return state, nil
}

// administratorHold returns the hold that is not of the person at the node, nil for none.
func administratorHold(nodeUpgrade *topsv1.NodeUpgrade) *topsv1.NodeHold {
	for _, h := range daemonset.HoldsOf(nodeUpgrade) {
		if h.By == daemonset.ByAdministrator {
			return &topsv1.NodeHold{Since: metav1.NewTime(h.Since), Message: h.Message}
		}
	}
	return nil
}

// dropQueued ends the operation that the operator was not told of. One that may be known
// to the operator in part is told: it waits for the release.
func (in *Inbox) dropQueued() {
	i := running(in.book.records)
	if i < 0 || !in.book.records[i].Queued || !in.untold(in.book.records[i]) {
		return
	}
	r := in.book.records[i].ended(Dropped, string(ReasonNodeHeld), "this node was held before the operator received it", seconds(in.clock.Now()))
	if err := in.book.put(r); err != nil {
		in.log.Error(err, "Could not record that an operation was dropped", "operation", r.ID)
	}
}

// Status says how this node stands.
func (in *Inbox) Status(ctx context.Context) Status {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := in.look(ctx, true)
	status := Status{Node: in.nodeName, Connected: err == nil}
	if err != nil {
		in.log.V(1).Info("Cannot look at this node now", "cause", err.Error())
		if now, err = in.seenNode.last(); err == nil {
			status.AsOf = &now.Time
		} else {
			now = &snapshot{}
		}
	}
	p, _ := in.board.read()
	status.Hold, status.AdministratorHold = p.hold, administratorHold(p.nodeUpgrade)
	records := make([]record, len(p.records))
	for i, r := range p.records {
		records[i] = r
		if p.nodeUpgrade != nil {
			records[i] = r.follow(p.nodeUpgrade.Status.Tasks, metav1.Time{})
		}
	}
	if i := running(records); i >= 0 {
		status.Running = records[i].ID
	}
	status.Components = componentsOf(now, func(ds topsv1.NamespacedRef) *LastOperation { return lastOf(records, ds) })
	return status
}
