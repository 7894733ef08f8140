package ota

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/records"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// reconciler brings the NodeUpgrade in line with the journals, and the journals with the
// operator's answers in the NodeUpgrade.
type reconciler struct {
	nodeName string
	cluster  Cluster
	clock    clock.Clock
	log      logr.Logger

	node      *nodeReader
	pulls     *pulls
	publisher *publisher
	// latest may be read without the lock.
	latest *latest
	// outOfStep gets a token when the NodeUpgrade may differ from the journals.
	outOfStep chan struct{}

	// lock holds one token; its holder may use the journals.
	lock     chan struct{}
	journals records.Journals
}

var errBusy = errors.New("the requests before this one are not yet done")

// acquire waits for the lock until ctx is done.
func (r *reconciler) acquire(ctx context.Context) error {
	select {
	case <-r.lock:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
}

func (r *reconciler) release() { r.lock <- struct{}{} }

// wake makes the loop reconcile.
func (r *reconciler) wake() {
	select {
	case r.outOfStep <- struct{}{}:
	default:
	}
}

// notRecorded refuses because the journal could not be written. The disk may have it nevertheless, so notRecorded wakes the loop.
func (r *reconciler) notRecorded(err error) error {
	r.wake()
	return request.NotRecorded(err)
}

// publish makes the journals' content readable by all, and the NodeUpgrade unless it is
// nil.
func (r *reconciler) publish(nodeUpgrade *topsv1.NodeUpgrade) {
	r.latest.change(func(s *state) {
		s.operations, s.hold = r.journals.Operations.List, r.journals.Hold.Hold // replaced, never modified
		if nodeUpgrade != nil {
			s.nodeUpgrade = nodeUpgrade
		}
	})
}

// observe returns the NodeUpgrade of this node, creating it if needed, and updates the
// journals from it. First it writes again what the disk may have otherwise, also without an API server. The error is a *Refusal if what
// the disk lost, or an interrupted withdrawal, could not be recorded.
func (r *reconciler) observe(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	if err := r.journals.Settle(); err != nil {
		r.log.Error(err, "Could not bring the disk in line with what is requested here")
	}
	nodeUpgrade, err := r.publisher.read(ctx)
	if err != nil {
		return nil, err
	}
	status := &nodeUpgrade.Status
	requests := r.journals.Requests.List
	if r.journals.Incomplete {
		if err := r.journals.Adopt(status); err != nil {
			return nil, request.NotRecorded(fmt.Errorf("taking over the published operations: %w", err))
		}
		requests = request.Adopt(requests, status.Requests)
	}
	if o, waiting, is := request.InterruptedWithdrawal(r.journals.Operations.List, requests, status.Tasks); is {
		if err := r.finishWithdrawal(o, requests, waiting); err != nil {
			return nil, request.NotRecorded(fmt.Errorf("recording that operation %s is withdrawn: %w", o.ID, err))
		}
		requests = r.journals.Requests.List
	}
	requests = request.WithdrawOthers(r.journals.Operations.List, requests)
	r.followOperations(requests, status.Tasks)
	if err := r.journals.Requests.Keep(request.Trim(request.ApplyAnswers(requests, status.Tasks))); err != nil {
		if r.journals.Incomplete {
			return nil, request.NotRecorded(fmt.Errorf("taking over the published requests: %w", err))
		}
		// What cannot be recorded now can be observed again.
		r.log.Error(err, "Could not record the results of the requests")
		return nodeUpgrade, nil
	}
	if r.journals.Incomplete {
		if err := r.journals.Restored(); err != nil {
			r.log.Error(err, "Could not record that the published requests were taken over")
		}
	}
	r.publish(nodeUpgrade)
	return nodeUpgrade, nil
}

// followOperations updates the operations from the requests and their tasks. What cannot be recorded now can
// be observed again.
func (r *reconciler) followOperations(requests []request.Request, tasks []topsv1.UpgradeTask) {
	for _, o := range request.FollowAll(r.journals.Operations.List, requests, tasks, request.Seconds(r.clock.Now())) {
		if err := r.journals.Operations.Put(o); err != nil {
			r.log.Error(err, "Could not record the result of an operation", "operation", o.ID)
			continue
		}
		if o.End != nil {
			r.log.Info("An operation has ended", "operation", o.ID, "state", o.State(), "message", response.Message(o))
		}
	}
}

// decided returns the requests of a list that may be submitted without another decision.
func (r *reconciler) decided(requests []request.Request, nodeUpgrade *topsv1.NodeUpgrade) []request.Request {
	return request.Decided(requests, r.journals.Operations.List, &nodeUpgrade.Status)
}

// submit writes requests, the hold and the pulls into the NodeUpgrade, for the operator.
func (r *reconciler) submit(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, requests []request.Request) error {
	pulls := r.pulls.report(nodeUpgrade.Status.Pulls, r.node.newestOf())
	return r.publisher.apply(ctx, nodeUpgrade, r.journals.Hold.Hold, request.StatusOf(requests), pulls)
}

// send sends the queued operation, if there is one, to the operator: it shows requests for
// those parts that still apply. node is a fresh result of look, or nil to read it now. The error is a *Refusal if that could not be
// recorded.
func (r *reconciler) send(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, node *request.Node) (err error) {
	operations := r.journals.Operations.List
	i := request.Unfinished(operations)
	if i < 0 || !operations[i].Queued {
		return nil
	}
	if node == nil {
		if node, err = r.node.look(ctx, true); err != nil {
			return err
		}
	}
	next, requests := operations[i].RequestParts(node, r.journals.Requests.List, &nodeUpgrade.Status, request.Seconds(r.clock.Now()))
	if err := r.journals.Requests.Keep(requests); err != nil {
		return request.NotRecorded(fmt.Errorf("recording the requests of operation %s: %w", next.ID, err))
	}
	if err := r.submit(ctx, nodeUpgrade, request.Trim(requests)); err != nil {
		return err
	}
	if err := r.journals.Operations.Put(next); err != nil {
		return request.NotRecorded(fmt.Errorf("recording that operation %s was sent: %w", next.ID, err))
	}
	r.log.Info("Sent an operation to the operator", "operation", next.ID, "state", next.State(), "requests", len(next.Parts))
	r.publish(nil)
	return nil
}

// finishWithdrawal records the withdrawal of some of the requests and of their operation, of which an earlier agent has recorded a part.
func (r *reconciler) finishWithdrawal(o request.Operation, requests []request.Request, ids []string) error {
	r.log.Info("Recording that requests are withdrawn, which was interrupted", "operation", o.ID, "requests", len(ids))
	if err := r.journals.Requests.Keep(request.Withdraw(requests, ids)); err != nil {
		return err
	}
	return r.recordWithdrawn(o)
}

// recordWithdrawn records that an operation is withdrawn, after its requests. One that was not sent as a whole is queued until then.
func (r *reconciler) recordWithdrawn(o request.Operation) error {
	if o.Queued {
		o = o.AsSent(r.journals.Requests.List)
	}
	o.Withdrawn = true
	return r.journals.Operations.Put(o)
}
