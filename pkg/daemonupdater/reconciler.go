package daemonupdater

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gatekeeper"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/globaljobs"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/nodewriter"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/reporter"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts/status,verbs=update
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradeplans,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradeplans/status,verbs=update
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;watch

// Reconciler upgrades one group per reconcile. It runs in one goroutine: there are few groups,
// and slow work within one is done in parallel.
type Reconciler struct {
	client.Client
	// Live reads from the API server, past the cache.
	Live client.Reader
	// Recorder sends events.
	Recorder events.EventRecorder
	// Metrics of the rollouts.
	Metrics *metrics.Metrics
	// Node is the node that this program runs on, which is upgraded last in its wave; "" if
	// unknown.
	Node string
	// Namespace is that of the DaemonRollouts of GcuResources.
	Namespace string
	// Book says which components an operation replaces, and how.
	Book upgradeplan.LogicBook
	// Gate returns whether the admission policy gcu-operator-gate gates pods; nil if the gate is not enabled.
	Gate func() gating.Mode
	// GateChanged receives when Gate has begun to return another mode; nil if the gate is not enabled.
	GateChanged <-chan struct{}
	// Notices delivers notifications; nil for none.
	Notices Notices
	// Deadlines of nodes in flight.
	Deadlines rollout.Deadlines
	// Clock returns the time.
	Clock func() time.Time
	// Ahead is daemonset.StateTimes.Ahead; nil if unknown.
	Ahead func(now time.Time) time.Duration

	groupStates
}

// groupStates has what is kept about groups between passes. It is empty at every start.
type groupStates struct {
	written       map[observed.Group]writtenRollout
	nameTakenBy   map[observed.Group]types.UID
	fleets        map[observed.Group]*pass.Fleet
	lastRevisions map[observed.Group]gating.LastRevisions // revisions of nodes
	changed       watch.ChangedNodes
	attempts      deletion.AllAttempts
	concurrency   deletion.Concurrency
	// stateTimes of nodes and pods.
	stateTimes daemonset.StateTimes
}

// newGroupStates returns empty states; ahead is Reconciler.Ahead.
func newGroupStates(ahead func(time.Time) time.Duration) groupStates {
	return groupStates{written: map[observed.Group]writtenRollout{}, nameTakenBy: map[observed.Group]types.UID{}, fleets: map[observed.Group]*pass.Fleet{},
		lastRevisions: map[observed.Group]gating.LastRevisions{}, stateTimes: daemonset.StateTimes{Ahead: ahead}}
}

func (m *groupStates) forget(g observed.Group) {
	delete(m.written, g)
	delete(m.nameTakenBy, g)
	delete(m.fleets, g)
	delete(m.lastRevisions, g)
	m.attempts.Forget(g)
}

// openGates cancels operations, and releases the pods at the gate, of a group that is no longer controlled, on the nodes taken from
// changed. After an error some may still have one: all are taken again.
func (r *Reconciler) openGates(ctx context.Context, p *pass.Pass, changed []string, all bool) error {
	steps := r.steps()
	err := steps.openGates(ctx, p, changed, all)
	if err != nil {
		r.changed.AddAll(p.Group)
	}
	return err
}

// Reconcile makes one pass over a group: observe, decide, store the ledger, act, report.
func (r *Reconciler) Reconcile(ctx context.Context, g observed.Group) (ctrl.Result, error) {
	steps := r.steps()
	changed, all := r.changed.Take(g) // before reading: later events are for the next pass
	if all {
		delete(r.fleets, g)
	}
	p, err := steps.groups.read(ctx, g, r.Clock())
	if err != nil {
		r.changed.AddAll(g) // the nodes taken above were not read
		return ctrl.Result{}, err
	}
	if len(p.Members) == 0 {
		r.forget(g)
		return resultOf(ctx, 0, steps.abandon(ctx, g, r.Clock()))
	}
	if p.Unmanaged() {
		r.forget(g)
		return resultOf(ctx, 0, r.openGates(ctx, p, changed, all))
	}
	p.In = p.Input(&r.Book, r.Deadlines, r.Clock())
	if err := steps.refresh(ctx, p, changed); err != nil {
		delete(r.fleets, g)
		return resultOf(ctx, 0, err)
	}
	if err := steps.pods.confirmTarget(ctx, p); err != nil {
		return resultOf(ctx, 0, err)
	}
	if err := steps.pins.decide(ctx, p); err != nil {
		return resultOf(ctx, 0, err)
	}
	r.attempts.Prune(g, p.Fleet.Reported.Runs, p.Fleet.Has)
	p.Decision = p.Fleet.Decide(p.In)
	r.attempts.Replaced.Note(g, p.Decision.Over, p.In.Now)
	steps.globals.After(ctx, p)
	p.Fleet.AwaitsHeartbeats = p.Decision.AwaitsHeartbeats
	if done, idle := p.IsReleased(&p.In, &p.Decision); done && idle {
		return resultOf(ctx, p.Decision.Recheck, r.openGates(ctx, p, changed, all))
	} else if done {
		again, released, err := steps.release(ctx, p)
		if released {
			r.forget(g)
		}
		return resultOf(ctx, max(again, r.attempts.Fences.NextRetry(g, p.In.Now)), err)
	}
	again, err := steps.carryOut(ctx, p)
	r.Metrics.Show(g, p.In, p.Decision, p.Rollout.Status.Rollback != nil)
	if p.RolloutUnseen || p.Rollout.ResourceVersion == "" {
		again = retry.Sooner(again, cacheLag)
	}
	again = retry.Sooner(again, r.attempts.NextRetry(g, p.In.Now))
	return resultOf(ctx, retry.Sooner(p.Decision.Recheck, retry.Sooner(p.Again, again)), err)
}

// steps returns the steps of one pass.
func (r *Reconciler) steps() steps {
	c, gate := access.Cluster{Client: r.Client, Live: r.Live}, gating.Off
	if r.Gate != nil {
		gate = r.Gate()
	}
	deniable := func(attempts *deletion.Attempts) access.RequestKind {
		return access.RequestKind{Attempts: attempts, Changed: &r.changed}
	}
	ledgers := ledgerStore{Cluster: c, namespace: r.Namespace, recorder: r.Recorder, metrics: r.Metrics, gate: gate, notices: r.Notices, written: r.written, nameTakenBy: r.nameTakenBy}
	return steps{
		groups:    groupReader{c, ledgers, &r.Book, r.Node, &r.stateTimes},
		fleets:    fleetReader{c, r.fleets, gate, r.lastRevisions, &r.attempts},
		gates:     gatekeeper.Gatekeeper{Cluster: c, Releases: deniable(&r.attempts.Releases), Restores: deniable(&r.attempts.Restores)},
		ledgers:   ledgers,
		pins:      pinStep{c, gate},
		pods:      podDeleter{c, r.Metrics, deniable(&r.attempts.Deletions), deniable(&r.attempts.Fences), &r.concurrency, r.Clock},
		nodes:     nodewriter.Writer{Cluster: c, Book: r.Book, Operations: deniable(&r.attempts.Operations), Pulls: deniable(&r.attempts.Pulls)},
		rollbacks: rollbackStep{c, ledgers},
		globals:   globaljobs.Runner{Cluster: c, Namespace: r.Namespace},
		reports:   reporter.Reporter{Cluster: c, Changed: &r.changed, Metrics: r.Metrics, Denied: deniable(&r.attempts.Conditions)},
	}
}

// forget drops the state of a group that is gone or no longer controlled.
func (r *Reconciler) forget(g observed.Group) {
	r.groupStates.forget(g)
	r.Metrics.Forget(g)
	if r.Notices != nil {
		r.Notices.Offer(g, nil)
	}
}

// resultOf returns the result of a pass. A stale cache is not an error: the next pass sees the current state.
func resultOf(ctx context.Context, again time.Duration, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: again}, nil
	case access.IsStale(err):
		log.FromContext(ctx).V(4).Info("Stale cache, requeueing", "cause", err.Error())
		return ctrl.Result{RequeueAfter: retryStaleCache}, nil
	}
	return ctrl.Result{}, err
}
