package ota

import (
	"context"
	"errors"

	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// operationStarter starts operations.
type operationStarter struct{ *reconciler }

// Upgrade starts an operation, or returns the one that an earlier call with the same key returned;
// "" is no key. A nil error means that the operation is durable on this node. Errors are
// *Refusal.
func (t operationStarter) Upgrade(ctx context.Context, operation request.Operation, key string) (response.Operation, error) {
	if refusal := operation.Wanted.Validate(key); refusal != nil {
		return response.Operation{}, refusal
	}
	if err := t.acquire(ctx); err != nil {
		return response.Operation{}, request.Disconnected(err, request.NotKept)
	}
	defer t.release()
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()

	nodeUpgrade, err := t.observe(ctx)
	// A repeated call needs no API server: what it asks for is recorded.
	if repeated, known, refusal := operation.Repeated(t.journals.Operations.List, t.nodeName, key); refusal != nil {
		return response.Operation{}, refusal
	} else if known {
		result, _, err := t.latest.Operation(repeated.ID)
		return result, err
	}
	var node *request.Node
	if err == nil {
		node, err = t.node.look(ctx, true)
	}
	offline := err != nil
	if offline {
		if node, err = t.lastSeen(err, operation.Wanted); err != nil {
			return response.Operation{}, err
		}
	}
	o, refusal := operation.Begin(t.journals.Operations.List, t.journals.Hold.Hold, node, key, offline, t.clock.Now())
	if refusal != nil {
		return response.Operation{}, refusal
	}
	t.log.Info("Recording an operation", "operation", o.ID, "component", o.Wanted.Component, "latest", o.Wanted.Latest, "offline", offline)
	if err := t.journals.Operations.Put(o); err != nil {
		return response.Operation{}, t.notRecorded(err)
	}
	if !offline {
		if err := t.send(ctx, nodeUpgrade, node); err != nil {
			t.log.Error(err, "Cannot send an operation to the operator yet", "operation", o.ID)
			t.wake()
		}
	}
	t.publish(nil)
	result, _, err := t.latest.Operation(o.ID)
	return result, err
}

// lastSeen returns the last known state of the node when the API server is away; an operation
// for the latest may do without it. It returns an error if the API server rejected the
// call, or if nothing is known.
func (t operationStarter) lastSeen(cause error, wanted request.Wanted) (*request.Node, error) {
	if !isUnreachable(cause) {
		return nil, request.Disconnected(cause, request.NotKept)
	}
	last, err := t.node.last()
	switch {
	case err == nil:
		return last, nil
	case wanted.Latest:
		return &request.Node{Name: t.nodeName}, nil
	}
	return nil, request.Disconnected(errors.Join(cause, err), request.NotKept)
}
