package hosttasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// signal wakes the loop: it holds at most one token.
type signal chan struct{}

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// runner has the executor execute tasks.
type runner struct {
	options Options
	// woken is set when a result has changed.
	woken signal

	running sync.WaitGroup
	mutex   sync.Mutex
	// underWay are the tasks that the executor is executing, by key.
	underWay map[string]attempt
	// unobserved are the errors of the last observations of restarts that are not requested, by key.
	unobserved map[string]string
	// refused are the tasks that the executor has refused, until it accepts them.
	refused map[string]task.Result
}

// attempt is a task in progress, and how to end it.
type attempt struct {
	// task is the zero value for the observation of a restart that is not requested.
	task hostapi.Task
	end  context.CancelCauseFunc
}

// errRequested ends the observation of a restart that is requested again.
var errRequested = errors.New("the restart is requested again")

func newRunner(o Options, woken signal) *runner {
	return &runner{options: o, woken: woken, underWay: map[string]attempt{}, unobserved: map[string]string{}, refused: map[string]task.Result{}}
}

// begin passes a task to the executor, unless it is in progress or this attempt has a final
// result. The observation of a restart that is requested again ends first, and wakes the loop.
func (r *runner) begin(ctx context.Context, t hostapi.Task) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if current, is := r.underWay[t.Key()]; is {
		if current.task.Operation == nil {
			current.end(errRequested)
		}
		return
	}
	before, known := r.known(t.Key())
	if known && t.Answered(before) {
		return
	}
	if !known || before.Attempt != t.Attempt {
		r.options.Log.Info("Starting a host task", "operation", t.Operation.ID, "task", t.String(), "attempt", t.Attempt)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.underWay[t.Key()] = attempt{t, cancel}
	r.running.Go(func() {
		defer cancel(nil)
		r.do(ctx, t, before)
	})
}

// observeUnrequested observes the restarts that have begun and are no longer requested until they have ended: the operator
// waits for that before it gives the node back, and the agent that began one may have been killed by it.
func (r *runner) observeUnrequested(ctx context.Context, tasks []hostapi.Task) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, request := range r.options.Executor.Unended() {
		key := task.KeyOf(request.ID, request.Task)
		_, is := r.underWay[key]
		if is || slices.ContainsFunc(tasks, func(t hostapi.Task) bool { return t.Key() == key }) {
			continue
		}
		log := r.options.Log.WithValues("operation", request.ID, "task", request.Task)
		if r.unobserved[key] == "" {
			log.Info("Observing a restart that is no longer requested")
		}
		ctx, cancel := context.WithCancelCause(ctx)
		r.underWay[key] = attempt{end: cancel}
		r.running.Go(func() {
			defer cancel(nil)
			_, err := r.options.Executor.Execute(ctx, request)
			r.mutex.Lock()
			defer r.mutex.Unlock()
			delete(r.underWay, key)
			if err != nil && ctx.Err() == nil { // a full disk, or another restart; the next pass observes again
				if r.unobserved[key] != err.Error() {
					log.Error(err, "Could not observe a restart")
				}
				r.unobserved[key] = err.Error()
				return
			}
			delete(r.unobserved, key)
			r.woken.set()
		})
	}
}

// known returns the refused or recorded result of a task; the caller holds the lock.
func (r *runner) known(key string) (task.Result, bool) {
	if refused, is := r.refused[key]; is {
		return refused, true
	}
	return r.recorded(key)
}

// recorded returns the recorded result of a task.
func (r *runner) recorded(key string) (task.Result, bool) {
	results := r.options.Executor.Results()
	i := slices.IndexFunc(results, func(r task.Result) bool { return task.KeyOf(r.ID, r.Task) == key })
	if i < 0 {
		return task.Result{}, false
	}
	return results[i], true
}

// awaits reports whether a result may change soon: of any task of an operation, of a prepull
// that has no final result, which stays requested after it has ended, and of a restart that is no longer requested.
func (r *runner) awaits(tasks []hostapi.Task) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.options.Executor.Unended()) > 0 || slices.ContainsFunc(tasks, func(t hostapi.Task) bool {
		if !t.IsPrepull() {
			return true
		}
		result, known := r.known(t.Key())
		return !known || !t.Answered(result)
	})
}

// do executes a task, and wakes the loop when its result has changed.
func (r *runner) do(ctx context.Context, t hostapi.Task, before task.Result) {
	o, err := r.request(ctx, t)
	if err == nil {
		_, err = r.options.Executor.Execute(ctx, o)
	} else {
		err = fmt.Errorf("%w: %w", task.ErrInvalid, err)
	}
	interrupted := ctx.Err() != nil
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.underWay, t.Key())
	delete(r.refused, t.Key())
	if err != nil && !interrupted {
		r.refused[t.Key()] = t.Refused(err)
	}
	after, known := r.known(t.Key())
	if !known || after.State == before.State && after.Reason == before.Reason && after.Attempt == before.Attempt {
		return
	}
	r.options.Log.Info("A host task changed", "operation", t.Operation.ID, "task", t.String(), "attempt", t.Attempt,
		"state", after.State, "reason", after.Reason, "message", after.Message)
	r.woken.set()
}

// endUnrequestedPulls ends the pulls that are no longer requested. Nothing else is ended: a restart
// that has begun cannot be undone, and its result must be reported.
func (r *runner) endUnrequestedPulls(tasks []hostapi.Task) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for key, of := range r.underWay {
		wanted := slices.ContainsFunc(tasks, func(t hostapi.Task) bool { return t.Key() == key })
		if !wanted && of.task.Action == upgradeplan.ActionPrepull {
			r.options.Log.Info("Canceling a pull that is no longer requested", "operation", of.task.Operation.ID, "task", of.task.Name())
			of.end(task.ErrNotRequested)
		}
	}
}

// results returns the task results for the report. Refusals are forgotten with their
// operation.
func (r *runner) results(nodeUpgrade *topsv1.NodeUpgrade) []topsv1.HostTaskResult {
	current := hostapi.CurrentOperations(nodeUpgrade)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	maps.DeleteFunc(r.refused, func(_ string, r task.Result) bool { return !slices.Contains(current, r.ID) })
	return hostapi.ResultsOf(r.options.NodeName, hostapi.WithRefused(r.options.Executor.Results(), r.refused), current)
}

// request returns the request to the executor for a task, with the pull secrets of a prepull.
func (r *runner) request(ctx context.Context, t hostapi.Task) (task.Request, error) {
	o, err := t.Request(r.options.Engine, r.options.RestartAllowed)
	if err == nil && o.Prepull != nil {
		o.Prepull.LeaveUnauthorized = t.IsPrepull()
		r.addSecrets(ctx, o.Prepull, t.Component())
	}
	return o, err
}

// addSecrets reads the pull secrets of a component. An unreadable one is noted and left out,
// as the kubelet does: the image may be present or public. If only the kubelet may read it, it pulls
// what the agent cannot.
func (r *runner) addSecrets(ctx context.Context, p *task.Prepull, target *topsv1.OperationTarget) {
	var notes []string
	namespace := target.DaemonSet.Namespace
	for _, name := range target.PullSecrets {
		limit, cancel := context.WithTimeout(ctx, callTimeout)
		secret, err := r.options.Cluster.Secret(limit, namespace, name)
		cancel()
		switch {
		case err == nil:
			p.Secrets = append(p.Secrets, *secret)
		case apierrors.IsForbidden(err):
			p.LeaveToKubelet = true
			notes = append(notes, fmt.Sprintf("the node agent cannot read pull secret %s/%s: grant its ServiceAccount get on it", namespace, name))
		case apierrors.IsNotFound(err):
			notes = append(notes, fmt.Sprintf("there is no pull secret %s/%s", namespace, name))
		default:
			notes = append(notes, fmt.Sprintf("pull secret %s/%s could not be read: %v", namespace, name, err))
		}
	}
	p.Note = strings.Join(notes, "; ")
}
