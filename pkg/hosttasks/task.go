package hosttasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
)

// begin hands a task to the executor, unless it has it or has answered this attempt.
func (w *Worker) begin(ctx context.Context, a asked) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.underWay[a.key()] != nil {
		return
	}
	before, known := w.known(a.key())
	if known && a.answered(before.State, before.Attempt) {
		return
	}
	if !known || before.Attempt != a.attempt {
		w.log.Info("Beginning a task of the host", "operation", a.key().operation, "task", a.task.String(), "attempt", a.attempt)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w.underWay[a.key()] = cancel
	w.tasks.Go(func() {
		defer cancel(nil)
		w.do(ctx, a, before)
	})
}

// known returns what is known of a task; it needs the lock.
func (w *Worker) known(k key) (hostagent.Result, bool) {
	if r, is := w.refused[k]; is {
		return r, true
	}
	recorded := w.options.Executor.Results()
	i := slices.IndexFunc(recorded, func(r hostagent.Result) bool { return r.ID == k.operation && r.Task == k.task })
	if i < 0 {
		return hostagent.Result{}, false
	}
	return recorded[i], true
}

// do has the executor do a task, and wakes the loop when there is something to tell.
func (w *Worker) do(ctx context.Context, a asked, before hostagent.Result) {
	o, err := a.forExecutor(w.engine(), w.options.RestartAllowed, w.credentialsFor(ctx, a))
	if err == nil {
		_, err = w.options.Executor.Execute(ctx, o)
	} else {
		err = fmt.Errorf("%w: %w", hostagent.ErrInvalid, err)
	}
	interrupted := ctx.Err() != nil
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.underWay, a.key())
	delete(w.refused, a.key())
	if err != nil && !interrupted {
		w.refused[a.key()] = refusal(a, err)
	}
	after, known := w.known(a.key())
	if !known || after.State == before.State && after.Reason == before.Reason && after.Attempt == before.Attempt {
		return
	}
	w.log.Info("A task of the host has changed", "operation", a.key().operation, "task", a.task.String(), "attempt", a.attempt,
		"state", after.State, "reason", after.Reason, "message", after.Message)
	w.wake()
}

// refusal words an error of the executor: what may succeed when it is tried again is
// not final.
func refusal(a asked, err error) hostagent.Result {
	r := hostagent.Result{ID: a.key().operation, Task: a.key().task, Attempt: a.attempt, State: hostagent.Failed, Message: err.Error()}
	switch {
	case errors.Is(err, hostagent.ErrInvalid):
		r.Reason = "Invalid"
	case errors.Is(err, hostagent.ErrConflict):
		r.Reason = "Conflict"
	case errors.Is(err, hostagent.ErrLost):
		r.Reason = "RecordLost"
	case errors.Is(err, hostagent.ErrBusy):
		r.State, r.Reason = hostagent.Running, "Busy"
	case errors.Is(err, hostagent.ErrNotRecorded):
		r.State, r.Reason = hostagent.Running, "NotRecorded"
	default:
		r.State, r.Reason = hostagent.Running, "Error"
	}
	return r
}

// endUnasked ends the pulls that are not asked for any more. Nothing else is ended: a
// restart that has begun cannot be taken back, and its end is to be told.
func (w *Worker) endUnasked(tasks []asked) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for k, end := range w.underWay {
		isAsked := slices.ContainsFunc(tasks, func(a asked) bool { return a.key() == k })
		if !isAsked && strings.HasSuffix(k.task, "_prepull") {
			w.log.Info("Ending a pull that is not asked for any more", "operation", k.operation, "task", k.task)
			end(hostagent.ErrWithdrawn)
		}
	}
}

// results are what is shown of tasks. What the executor would not do is forgotten
// with its operation.
func (w *Worker) results(nodeUpgrade *topsv1.NodeUpgrade) []topsv1.HostTaskResult {
	current := currentOperations(nodeUpgrade)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	maps.DeleteFunc(w.refused, func(k key, _ hostagent.Result) bool { return !slices.Contains(current, k.operation) })
	return resultsOf(w.options.NodeName, with(w.options.Executor.Results(), w.refused), current)
}

// credentialsFor reads the pull secrets of a prepull. One that cannot be read is
// noted and left out, as the kubelet does: the image may be there, or be public.
func (w *Worker) credentialsFor(ctx context.Context, a asked) credentials {
	target := a.target()
	if target == nil {
		return credentials{}
	}
	var c credentials
	var notes []string
	namespace := target.DaemonSet.Namespace
	for _, name := range target.PullSecrets {
		limit, cancel := context.WithTimeout(ctx, callTimeout)
		secret, err := w.options.Cluster.Secret(limit, namespace, name)
		cancel()
		switch {
		case err == nil:
			c.secrets = append(c.secrets, *secret)
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("the node agent may not read pull secret %s/%s: give its ServiceAccount the right to get it", namespace, name))
		case apierrors.IsNotFound(err):
			notes = append(notes, fmt.Sprintf("there is no pull secret %s/%s", namespace, name))
		default:
			notes = append(notes, fmt.Sprintf("pull secret %s/%s could not be read: %v", namespace, name, err))
		}
	}
	c.note = strings.Join(notes, "; ")
	return c
}
