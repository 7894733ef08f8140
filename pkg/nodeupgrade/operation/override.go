package operation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Verbs of an override.
const (
	verbRetry = "retry"
	verbSkip  = "skip"
	verbUndo  = "undo"
)

// applyOverride acts once on each value of the annotation AnnotationTaskOverride.
func applyOverride(c *changes) {
	value := c.Override
	if value == c.Operation.Override {
		return
	}
	c.Operation.Override = value
	verb, t, err := readOverride(c.Facts, value)
	if value == "" || err != nil {
		return // badOverride reports it
	}
	now := metav1.NewTime(c.Now)
	switch verb {
	case verbRetry:
		retryTask(c, t)
	case verbSkip:
		rec := c.task(t)
		rec.Reason, rec.Message, rec.StartTime, rec.EndTime = "", "", nil, &now
		rec.State = topsv1.OperationTaskSkipped
	}
	if c.Operation.Held {
		resume(c, now)
	}
}

// retryTask makes a task pending, and those after it that failed: they would end the operation again.
func retryTask(c *changes, t upgradeplan.Task) {
	for later := range c.job.All() {
		rec := c.task(later)
		if later == t || rec.State == topsv1.OperationTaskFailed && c.stageOf(later) > c.stageOf(t) {
			rec.State, rec.Reason, rec.Message, rec.StartTime, rec.EndTime = topsv1.OperationTaskPending, "", "", nil, nil
			rowOf(later).retry(c, later)
		}
	}
}

// resume continues an operation that keeps its node cordoned. Running tasks start again after their
// preconditions are checked again: the node may have been uncordoned meanwhile, and pods may have returned.
func resume(c *changes, now metav1.Time) {
	c.Operation.Held, c.Operation.EndTime, c.Operation.StartTime = false, nil, now
	c.phase(topsv1.OperationRunning)
	for i := range c.Operation.Tasks {
		if t := &c.Operation.Tasks[i]; t.State == topsv1.OperationTaskRunning {
			t.State, t.StartTime = topsv1.OperationTaskPending, nil
		}
	}
}

// readOverride parses VERB:TASK[:NOTE]. A bad value is an error and is never taken for
// another (invariant S12).
func readOverride(f *Facts, value string) (verb string, t upgradeplan.Task, err error) {
	parts := strings.SplitN(value, ":", 3)
	if len(parts) < 2 || !slices.Contains([]string{verbRetry, verbSkip, verbUndo}, parts[0]) {
		return "", t, fmt.Errorf("it is not of the form retry:TASK, skip:TASK or undo:TASK")
	}
	verb = parts[0]
	if t, err = upgradeplan.ParseTask(parts[1]); err != nil {
		return "", t, err
	}
	if f.stageOf(t) < 0 {
		return "", t, fmt.Errorf("the job has no task %s", t)
	}
	switch {
	case verb == verbSkip && rowOf(t).kept:
		return "", t, fmt.Errorf("task %s cannot be skipped: abort the operation", t)
	case verb == verbUndo:
		return "", t, fmt.Errorf("task %s is not undone by a running operation: abort it (kubectl gcu abort), wait for its end, or go back on all nodes (kubectl gcu rollback)", t)
	}
	return verb, t, nil
}

// badOverride returns a message about an invalid override, "" when it is valid or absent. An undo is ignored here:
// the daemonupdater handles it (docs/adr/0021).
func badOverride(f *Facts) string {
	if f.Override == "" || strings.HasPrefix(f.Override, verbUndo+":") {
		return ""
	}
	if _, _, err := readOverride(f, f.Override); err != nil {
		return fmt.Sprintf("annotation %s is ignored: %v", topsv1.AnnotationTaskOverride, err)
	}
	return ""
}
