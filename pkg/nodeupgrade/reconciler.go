package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldOwner is the field manager of status.operation and status.history.
const fieldOwner = client.FieldOwner("gcu-nodeupgrade")

// lookAgain is when to look again after the world was found to be ahead.
const lookAgain = 200 * time.Millisecond

// errMoved says that the world is not as it was seen; the next reconcile decides
// again.
var errMoved = errors.New("changed since it was read")

// Reconciler carries out the operation of one node per reconcile. All fields must be
// set.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	client.Client
	// Live reads past the cache.
	Live client.Reader
	// Machine decides.
	Machine *operation.Machine
	// Drainer empties nodes.
	Drainer drain.Drainer
	// Recorder sends events about NodeUpgrades.
	Recorder events.EventRecorder
	// Metrics of the tasks.
	Metrics *Metrics
	// Clock tells the time.
	Clock func() time.Time

	drains drains
}

// Reconcile makes one pass over the operation of a node: observe, decide, store the
// record, carry out.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	idle, err := r.idle(ctx, request.Name)
	if idle || err != nil {
		r.forget(request.Name)
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, request.Name)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil // the NodeUpgrade is gone: its own event comes
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	d := r.Machine.Next(o.facts)
	if err := r.store(ctx, o, d.Record); err != nil {
		return resultOf(ctx, 0, err)
	}
	if !operation.NeedsDrained(o.facts) {
		r.endDrain(request.Name)
	}
	return resultOf(ctx, d.After, r.carryOut(ctx, o, d.Effects))
}

// idle reports whether nothing to do about a node: it has no operation that is
// not over, and shows no mark of one. A mark that a NodeUpgrade left which is gone is
// swept up.
func (r *Reconciler) idle(ctx context.Context, name string) (bool, error) {
	var upgrade topsv1.NodeUpgrade
	err := r.Get(ctx, client.ObjectKey{Name: name}, &upgrade, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting NodeUpgrade %s: %w", name, err)
	}
	gone := err != nil
	if !gone && active(&upgrade) {
		return false, nil
	}
	marked, err := r.marked(ctx, name)
	if err != nil || !marked || !gone {
		return !marked, err
	}
	return true, r.sweep(ctx)
}

// active reports whether a NodeUpgrade has an operation that is to begin or not over.
func active(upgrade *topsv1.NodeUpgrade) bool {
	wanted, op := upgrade.Spec.Operation, upgrade.Status.Operation
	return live(op) || wanted != nil && (op == nil || op.ID != wanted.ID)
}

// live reports whether an operation is not over: what it did to the node is meant.
func live(op *topsv1.OperationStatus) bool {
	return op != nil && (!op.Phase.Final() || op.Held)
}

// resultOf ends a pass: a world that is ahead is no error.
func resultOf(ctx context.Context, after time.Duration, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: after}, nil
	case errors.Is(err, errMoved), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		log.FromContext(ctx).V(4).Info("The world has moved, looking again", "cause", err.Error())
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{}, err
}

// store writes the record of the operation, and nothing else of the NodeUpgrade, at
// the resourceVersion that was read. What is told of it comes after the write.
func (r *Reconciler) store(ctx context.Context, o *observation, next operation.Record) error {
	before := o.facts.Record
	if equality.Semantic.DeepEqual(before, next) {
		r.Metrics.show(o.upgrade.Name, next.Operation)
		return nil
	}
	after := o.upgrade.DeepCopy()
	after.Status.Operation, after.Status.History = next.Operation, next.History
	patch := client.MergeFromWithOptions(o.upgrade, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, after, patch, fieldOwner); err != nil {
		return fmt.Errorf("storing the operation of NodeUpgrade %s: %w", o.upgrade.Name, err)
	}
	tell(ctx, before.Operation, next.Operation)
	r.Metrics.show(o.upgrade.Name, next.Operation)
	r.Metrics.count(before, next, o.facts.Host)
	for _, n := range noticesOf(before.Operation, next.Operation) {
		r.Recorder.Eventf(o.upgrade, nil, n.kind, n.reason, "Operation", "%s", n.message)
	}
	return nil
}

// tell logs that an operation has another phase or task.
func tell(ctx context.Context, before, after *topsv1.OperationStatus) {
	if after == nil || before != nil && before.ID == after.ID && before.Phase == after.Phase && before.Task == after.Task {
		return
	}
	log.FromContext(ctx).Info("Operation of a node goes on", "operation", after.ID, "phase", after.Phase, "task", after.Task,
		"reason", after.Reason, "message", after.Message)
}

// forget drops what is remembered of a node without an operation.
func (r *Reconciler) forget(node string) {
	r.endDrain(node)
	r.Metrics.show(node, nil)
}
