package hosttasks

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

const (
	// retryFirst doubles up to retryLast while the API server is unavailable.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// attentivePeriod is the interval between passes while a task is requested, or the driver is
	// replaced: a verification waits for a change on the host, and the operator until nothing has a device open.
	attentivePeriod = 5 * time.Second
	// jitter spreads the agents of many nodes: each period is extended by up to this
	// fraction.
	jitter = 0.25
)

// Worker carries out the tasks of the host and reports on the host.
type Worker struct {
	options Options
	runner  *runner
	// woken is set when there may be work.
	woken signal
	// seen is the state passed to the last call of Seen.
	seen trigger
}

// New returns a worker, which does nothing until Run.
func New(o Options) *Worker {
	woken := make(signal, 1)
	return &Worker{options: o, woken: woken, runner: newRunner(o, woken)}
}

// Restarting reports whether a restart of the runtime is recorded as running.
func (w *Worker) Restarting() bool {
	return slices.ContainsFunc(w.options.Executor.Results(), func(r task.Result) bool {
		return r.State == topsv1.HostTaskRunning && strings.HasSuffix(r.Task, "_"+upgradeplan.ActionRestartRuntime)
	})
}

// Run makes passes until ctx is done: at start, when the NodeUpgrade changed, when a task has
// ended, and on a timer. An unavailable API server is retried with increasing delays. When
// Run returns, no task is in progress.
func (w *Worker) Run(ctx context.Context) {
	defer w.runner.running.Wait()
	retry := retryFirst
	for connected := true; ctx.Err() == nil; {
		next, err := w.Pass(ctx)
		if err != nil {
			if connected && ctx.Err() == nil {
				w.options.Log.Error(err, "Cannot report this host, retrying")
			} else {
				w.options.Log.V(4).Info("Still cannot report this host", "cause", err.Error())
			}
			connected = false
			w.pause(ctx, retry, nil)
			retry = min(2*retry, retryLast)
			continue
		}
		if !connected {
			w.options.Log.Info("Reporting this host succeeds again")
		}
		connected, retry = true, retryFirst
		w.pause(ctx, next, w.woken)
	}
}

// Pass reads, begins and reports once. It returns the delay until the next pass.
func (w *Worker) Pass(ctx context.Context) (time.Duration, error) {
	nodeUpgrade, tasks, err := w.read(ctx)
	if apierrors.IsNotFound(err) {
		return attentivePeriod, nil // the Node, or its NodeUpgrade, which pkg/ota creates
	}
	if err != nil {
		return 0, err
	}
	recorded := w.options.Executor.Results()
	tasks = slices.DeleteFunc(tasks, func(t hostapi.Task) bool {
		old := t.Outdated(recorded, nodeUpgrade.Status.History)
		if old {
			w.options.Log.V(1).Info("Ignoring tasks of an operation older than the last one", "operation", t.Operation.ID, "task", t.String())
		}
		return old
	})
	w.runner.endUnrequestedPulls(tasks)
	w.runner.observeUnrequested(ctx, tasks)
	for _, t := range tasks {
		w.runner.begin(ctx, t)
	}
	facts, err := w.options.Executor.Facts(ctx, w.options.Engine)
	if err != nil {
		return 0, err
	}
	report := hostapi.ReportOf(facts, w.options.Clock.Now())
	report.Results = w.runner.results(nodeUpgrade)
	shown, err := w.show(ctx, nodeUpgrade, report)
	if err != nil {
		return 0, err
	}
	if w.runner.awaits(tasks) || hostapi.ReplacesDriver(nodeUpgrade) {
		return attentivePeriod, nil
	}
	return hostapi.ReportPeriod - report.Time.Sub(shown.Time.Time), nil
}

// read returns the NodeUpgrade of this node, and the tasks it requests: none when it is being
// deleted, and only prepulls when its operation is for another Node object of this name.
func (w *Worker) read(ctx context.Context) (*topsv1.NodeUpgrade, []hostapi.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var node *corev1.Node
	nodeUpgrade, err := w.options.Cluster.NodeUpgrade(ctx, w.options.NodeName)
	if err != nil {
		return nil, nil, fmt.Errorf("getting NodeUpgrade %s: %w", w.options.NodeName, err)
	}
	if nodeUpgrade.DeletionTimestamp != nil {
		return nodeUpgrade, nil, nil
	}
	tasks, prepulls := hostapi.TasksOf(nodeUpgrade), hostapi.PrepullsOf(nodeUpgrade, w.serverTime())
	if len(tasks) == 0 {
		return nodeUpgrade, prepulls, nil
	}
	if node, err = w.options.Cluster.Node(ctx, w.options.NodeName); err != nil {
		return nil, nil, fmt.Errorf("getting Node %s: %w", w.options.NodeName, err)
	}
	if of := nodeUpgrade.Spec.Operation.NodeUID; of != "" && node.UID != of { // an older CRD may have dropped it
		w.options.Log.V(4).Info("Ignoring tasks for another Node object", "operation", nodeUpgrade.Spec.Operation.ID, "nodeUID", node.UID)
		return nodeUpgrade, prepulls, nil
	}
	return nodeUpgrade, slices.Concat(tasks, prepulls), nil
}

// serverTime returns the time by the clock of the API server.
func (w *Worker) serverTime() time.Time {
	now := w.options.Clock.Now()
	if w.options.Ahead != nil {
		now = now.Add(-w.options.Ahead(now))
	}
	return now
}

// show applies a report if it is due, and returns the one then stored.
func (w *Worker) show(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, report *topsv1.HostReport) (*topsv1.HostReport, error) {
	if !hostapi.Due(nodeUpgrade.Status.Host, report) {
		return nodeUpgrade.Status.Host, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w.options.Log.V(4).Info("Applying the report of this host", "results", len(report.Results), "missing", report.Missing)
	err := w.options.Cluster.ApplyStatus(ctx, FieldManager, &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: nodeUpgrade.Name, UID: nodeUpgrade.UID},
		Status:     topsv1.NodeUpgradeStatus{Host: report},
	})
	if err != nil {
		return nil, fmt.Errorf("applying status.host of NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	return report, nil
}

// pause waits for a jittered period, until woken, or until ctx is done.
func (w *Worker) pause(ctx context.Context, period time.Duration, woken <-chan struct{}) {
	timer := w.options.Clock.NewTimer(wait.Jitter(period, jitter))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-woken:
	}
}

// trigger is the part of a NodeUpgrade that wakes the worker when it changes.
type trigger struct {
	uid       types.UID
	reported  bool
	operation string
	// tasks have only a name and the attempt.
	tasks []topsv1.OperationTask
	// prepulls are the ids and attempts of the prepulls.
	prepulls []string
}

// Seen handles watch updates of this node's NodeUpgrade, nil when it is deleted, one call at
// a time. It wakes Run when a relevant field has changed.
func (w *Worker) Seen(nodeUpgrade *topsv1.NodeUpgrade) {
	var now trigger
	if nodeUpgrade != nil {
		now.uid, now.reported = nodeUpgrade.UID, nodeUpgrade.Status.Host != nil
		for _, t := range nodeUpgrade.RequestedTasks() {
			now.operation = nodeUpgrade.Spec.Operation.ID
			now.tasks = append(now.tasks, topsv1.OperationTask{Name: t.Name, Attempts: t.Attempts})
		}
		for i := range nodeUpgrade.Spec.Prepulls {
			p := &nodeUpgrade.Spec.Prepulls[i]
			now.prepulls = append(now.prepulls, fmt.Sprintf("%s %d", p.ID, p.Attempt))
		}
	}
	if !reflect.DeepEqual(w.seen, now) {
		w.seen = now
		w.woken.set()
	}
}
