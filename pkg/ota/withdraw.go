package ota

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// withdrawer takes back what was requested.
type withdrawer struct {
	*reconciler
	starter operationStarter
}

// Rollback takes back what was requested at this node: it withdraws what has not started, or else starts an
// operation that restores the previous revision, of its component or of what the last operation
// upgraded. The operation is the one that it starts; key is as for Upgrade. A repeated call returns
// the operation that goes on. A nil error means that it is durable on this node. Errors are *Refusal.
func (w withdrawer) Rollback(ctx context.Context, operation request.Operation, key string) (response.Operation, error) {
	if operation.Wanted.Component == "" {
		if result, found, err := w.withdraw(ctx, key); found || err != nil {
			return result, err
		}
	}
	return w.starter.Upgrade(ctx, operation, key)
}

// withdraw withdraws the requests of this node that have not started; false if there are none, and no operation. One that was not
// sent to the operator ends at once; for others the operator states in each request's task
// whether the withdrawal was in time. It returns the operation as it is then, unfinished
// until the operator has answered; single requests are put into a new one, or into the one that was not sent. A rollback that was sent
// is not withdrawn, and nothing for the key of an earlier call.
func (w withdrawer) withdraw(ctx context.Context, key string) (result response.Operation, found bool, err error) {
	if err := w.acquire(ctx); err != nil {
		return result, false, request.Disconnected(err, request.NotKept)
	}
	defer w.release()
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	nodeUpgrade, err := w.observe(ctx)
	known := request.Knows(w.journals.Operations.List, w.nodeName, key)
	if err != nil && (w.journals.Incomplete || !isUnreachable(err)) && !known { // requests that may be lost cannot be withdrawn
		return result, false, request.Disconnected(err, request.NotKept)
	}
	now, _ := w.latest.read()
	requests := w.journals.Requests.List
	o, waiting := request.Withdrawable(w.journals.Operations.List, requests, now.tasks(), w.nodeName, w.clock.Now())
	unsent, nothing := o.Queued && o.Unsent(requests), len(waiting) == 0 && !request.Unconfirmed(requests)
	switch {
	case o.ID == "" || known:
		return result, false, nil
	case unsent && nothing:
		result, err = w.withdrawQueued(o.ReturnedFor(w.nodeName, key))
		return result, true, err
	case o.Wanted.Rollback && !unsent:
		result, err = w.returnRollback(ctx, o, key, o.Others(requests, waiting), nodeUpgrade)
		return result, true, err
	case nothing:
		return result, true, o.Started()
	}
	result, err = w.withdrawSent(ctx, o.ReturnedFor(w.nodeName, key), waiting, nodeUpgrade)
	return result, true, err
}

// withdrawSent withdraws requests that the operator may have received, and their operation. nodeUpgrade is nil without a connection. What is to be withdrawn is recorded first, of an operation that was not sent as a whole: an agent that is
// killed meanwhile withdraws the rest when it is back, and a repeated call finds it.
func (w withdrawer) withdrawSent(ctx context.Context, o request.Operation, waiting []string, nodeUpgrade *topsv1.NodeUpgrade) (response.Operation, error) {
	before := w.journals.Operations.List
	o.Withdrawn = o.Withdrawn || o.Queued
	if err := w.journals.Operations.Put(o); err != nil {
		return response.Operation{}, w.notRecorded(err)
	}
	w.log.Info("Recording that requests are withdrawn", "operation", o.ID, "requests", len(waiting))
	if err := w.journals.Requests.Keep(request.Withdraw(w.journals.Requests.List, waiting)); err != nil {
		w.journals.Operations.Restore(before)
		return response.Operation{}, w.notRecorded(err)
	}
	if err := w.recordWithdrawn(o); err != nil {
		w.log.Error(err, "Could not record yet that an operation is withdrawn, only its requests", "operation", o.ID)
		w.wake()
	}
	return w.submitWithdrawal(ctx, o, nodeUpgrade)
}

// submitWithdrawal shows withdrawn requests to the operator, now or when it is reachable, and returns an operation.
func (w withdrawer) submitWithdrawal(ctx context.Context, o request.Operation, nodeUpgrade *topsv1.NodeUpgrade) (response.Operation, error) {
	if nodeUpgrade == nil {
		w.wake()
	} else if err := w.submit(ctx, nodeUpgrade, w.decided(w.journals.Requests.List, nodeUpgrade)); err != nil {
		w.log.Error(err, "Cannot report withdrawn requests to the operator yet", "operation", o.ID)
		w.wake()
	}
	w.publish(nil)
	result, _, err := w.latest.Operation(o.ID)
	return result, err
}

// withdrawQueued ends an operation that was not sent to the operator.
func (w withdrawer) withdrawQueued(o request.Operation) (response.Operation, error) {
	if err := w.journals.Requests.Settle(); err != nil {
		return response.Operation{}, w.notRecorded(err)
	}
	o = o.Ended(request.Withdrawn, request.ReasonWithdrawn, "it was withdrawn before the operator received it", w.clock.Now())
	if err := w.journals.Operations.Put(o); err != nil {
		return response.Operation{}, w.notRecorded(err)
	}
	w.publish(nil)
	result, _, err := w.latest.Operation(o.ID)
	return result, err
}

// returnRollback returns a rollback that was sent to the operator, once the key is recorded with it and the requests of others are
// withdrawn. These are recorded with it first, as parts: it does not end before they are withdrawn, if need be by another agent.
func (w withdrawer) returnRollback(ctx context.Context, o request.Operation, key string, others []string, nodeUpgrade *topsv1.NodeUpgrade) (response.Operation, error) {
	before := w.journals.Operations.List
	if key != "" || len(others) > 0 {
		if err := w.journals.Operations.Put(o.ReturnedFor(w.nodeName, key).AddOthers(w.journals.Requests.List, others)); err != nil {
			return response.Operation{}, w.notRecorded(err)
		}
	}
	if len(others) == 0 {
		result, _, err := w.latest.Operation(o.ID)
		return result, err
	}
	w.log.Info("Recording that requests are withdrawn, beside a rollback that goes on", "operation", o.ID, "requests", len(others))
	if err := w.journals.Requests.Keep(request.Withdraw(w.journals.Requests.List, others)); err != nil {
		w.journals.Operations.Restore(before)
		return response.Operation{}, w.notRecorded(err)
	}
	return w.submitWithdrawal(ctx, o, nodeUpgrade)
}
