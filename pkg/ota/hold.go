package ota

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// holder sets and releases the hold of this node.
type holder struct{ *reconciler }

// Hold excludes this node from upgrades, and Release ends that. Operations in flight
// continue; an operation not yet sent to the operator is dropped. A nil error means that
// the change is durable on this node. Errors are *Refusal.
func (h holder) Hold(ctx context.Context, message string) (response.Hold, error) {
	if len(message) > maxHoldMessage {
		return response.Hold{}, request.Refuse(request.ReasonMalformed, "The message is longer than %d bytes.", maxHoldMessage)
	}
	return h.setHold(ctx, &topsv1.NodeHold{Since: request.Seconds(h.clock.Now()), Message: message})
}

// maxHoldMessage is the limit of the API.
const maxHoldMessage = 256

// Release ends the hold.
func (h holder) Release(ctx context.Context) (response.Hold, error) { return h.setHold(ctx, nil) }

func (h holder) setHold(ctx context.Context, hold *topsv1.NodeHold) (response.Hold, error) {
	if err := h.acquire(ctx); err != nil {
		return response.Hold{}, request.Disconnected(err, request.NotKept)
	}
	defer h.release()
	if before := h.journals.Hold.Hold; hold != nil && before != nil {
		hold.Since = before.Since
		if hold.Message == "" {
			hold.Message = before.Message
		}
	}
	h.log.Info("Recording whether this node is held", "held", hold != nil)
	if err := h.journals.Hold.Put(hold); err != nil {
		return response.Hold{}, h.notRecorded(err)
	}
	if hold != nil {
		h.dropQueued()
	}
	h.publish(nil)
	held := response.Hold{Held: hold != nil, Hold: hold}
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	nodeUpgrade, err := h.observe(ctx)
	if err == nil {
		err = h.submit(ctx, nodeUpgrade, h.decided(h.journals.Requests.List, nodeUpgrade))
	}
	if err != nil {
		h.log.V(1).Info("Cannot publish the hold of this node yet", "cause", err.Error())
		held.Offline = response.OfflineQueued
		h.wake()
	}
	now, _ := h.latest.read()
	held.AdministratorHold = response.AdministratorHold(now.nodeUpgrade)
	return held, nil
}

// dropQueued drops the operation that was not sent to the operator. One that may be partly
// sent is kept, as any while requests may be lost: it waits for the release. One that is to be withdrawn is left to that.
func (h holder) dropQueued() {
	operations := h.journals.Operations.List
	i := request.Unfinished(operations)
	if i < 0 || h.journals.Incomplete || !operations[i].Queued || operations[i].Withdrawn || !operations[i].Unsent(h.journals.Requests.List) {
		return
	}
	if err := h.journals.Requests.Settle(); err != nil {
		h.log.Error(err, "Could not drop an operation", "operation", operations[i].ID)
		return
	}
	o := operations[i].Ended(request.Dropped, request.ReasonNodeHeld, "this node was held before the operator received it", h.clock.Now())
	if err := h.journals.Operations.Put(o); err != nil {
		h.log.Error(err, "Could not record that an operation was dropped", "operation", o.ID)
	}
}
