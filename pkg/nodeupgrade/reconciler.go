package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch

// lookAgain is the requeue interval after a conflict.
const lookAgain = 200 * time.Millisecond

// Options configures a Reconciler. All fields but Ahead must be set.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Namespace is the operator's, in which the specs of GcuResources are kept.
	Namespace string
	// Machine decides the next step.
	Machine *operation.Machine
	// Drainer empties nodes.
	Drainer drain.Drainer
	// Recorder sends events about NodeUpgrades.
	Recorder events.EventRecorder
	// Metrics of the tasks.
	Metrics *Metrics
	// Clock returns the current time.
	Clock func() time.Time
	// Ahead is daemonset.StateTimes.Ahead, and that of the Drainer; nil: nothing is known.
	Ahead func(now time.Time) time.Duration
}

// Reconciler carries out the operation of one node per reconcile, in steps.
type Reconciler struct {
	cache     client.Reader
	machine   *operation.Machine
	observer  observer
	records   recordWriter
	effects   effects
	evictions *evictions
	sweeper   sweeper
}

// New returns a Reconciler, which SetupWithManager starts.
func New(o Options) *Reconciler {
	o.Drainer.Ahead = o.Ahead
	emptied := &evictions{drainer: o.Drainer, attempts: map[string]attempts{}}
	cordoner, taints := drain.Cordoner{Client: o.Client, Live: o.Live}, taintWriter{o.Client}
	refused := &denials{nodes: map[string]map[types.UID]denied{}}
	return &Reconciler{
		cache: o.Client, machine: o.Machine, evictions: emptied,
		observer: observer{cache: o.Client, live: o.Live, ownership: ownership.Reader{Reader: o.Client, Live: o.Live, Namespace: o.Namespace}, machine: o.Machine, evictions: emptied, stateTimes: &daemonset.StateTimes{Ahead: o.Ahead}, workTimes: &workTimes{nodes: map[string]workTime{}}, denials: refused, clock: o.Clock},
		records:  recordWriter{client: o.Client, recorder: o.Recorder, metrics: o.Metrics},
		effects:  effects{cordoner: cordoner, taints: taints, evictions: emptied, denials: refused, pods: podreplace.Replacer{Client: o.Client, Live: o.Live}},
		sweeper:  sweeper{cache: o.Client, live: o.Live, cordoner: cordoner, taints: taints},
	}
}

// Reconcile makes one pass over the operation of a node: observe, decide, store the record,
// carry out the effects.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	idle, err := r.idle(ctx, request.Name)
	if idle || err != nil {
		r.evictions.end(request.Name, r.observer.clock())
		r.observer.workTimes.end(request.Name)
		r.observer.denials.end(request.Name)
		return resultOf(ctx, 0, err)
	}
	o, err := r.observer.observe(ctx, request.Name)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil // the NodeUpgrade is gone; its delete event follows
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	observed := r.observer.clock()
	defer func() { r.observer.workTimes.worked(request.Name, r.observer.clock().Sub(observed)) }()
	d := r.machine.Next(o.facts)
	if err := r.records.store(ctx, o, d); err != nil {
		return resultOf(ctx, 0, err)
	}
	if !operation.NeedsDrained(o.facts) {
		r.evictions.end(request.Name, r.observer.clock())
	}
	return resultOf(ctx, d.After, r.effects.carryOut(ctx, o, d.Effects))
}

// Sweep removes cordons and taints that ended operations have left on nodes, as the manager does at
// start and periodically.
func (r *Reconciler) Sweep(ctx context.Context) error { return r.sweeper.sweep(ctx) }

// idle reports whether there is nothing to do for a node: its operation is over, none is to
// start, and the node has no cordon or taint of one. A mark left by a deleted NodeUpgrade is swept.
func (r *Reconciler) idle(ctx context.Context, name string) (bool, error) {
	var upgrade topsv1.NodeUpgrade
	err := r.cache.Get(ctx, client.ObjectKey{Name: name}, &upgrade, client.UnsafeDisableDeepCopy)
	if denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting NodeUpgrade %s: %w", name, err)
	}
	r.records.metrics.operations.show(name, upgrade.Status.Operation) // nil if it is gone
	gone := err != nil
	if !gone && active(&upgrade) {
		return false, nil
	}
	marked, err := r.sweeper.marked(ctx, name)
	if err != nil || !marked || !gone {
		return !marked, err
	}
	return true, r.Sweep(ctx)
}

// active reports whether a NodeUpgrade has an operation that is yet to begin or not over.
func active(upgrade *topsv1.NodeUpgrade) bool {
	wanted, op := upgrade.Spec.Operation, upgrade.Status.Operation
	return !operation.Over(op) || wanted != nil && (op == nil || op.ID != wanted.ID)
}

// resultOf turns an error into the result of the pass: a changed object requeues and is no
// error.
func resultOf(ctx context.Context, after time.Duration, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: after}, nil
	case errors.Is(err, podreplace.ErrChanged), denial.IsGoneOrChanged(err):
		log.FromContext(ctx).V(4).Info("Stale cache, requeueing", "cause", err.Error())
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{}, err
}
