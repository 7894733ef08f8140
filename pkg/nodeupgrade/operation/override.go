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

// override acts on the annotation AnnotationTaskOverride, once for each value.
func (s *step) override() {
	value := s.f.Override
	if value == s.op.Override {
		return
	}
	s.op.Override = value
	verb, t, err := s.readOverride(value)
	if value == "" || err != nil {
		return // say tells what is wrong with it
	}
	now := metav1.NewTime(s.f.Now)
	rec := s.task(t)
	rec.Reason, rec.Message, rec.StartTime, rec.EndTime = "", "", nil, nil
	switch verb {
	case verbRetry:
		s.retry(t, rec)
	case verbSkip:
		rec.State, rec.EndTime = topsv1.OperationTaskSkipped, &now
	case verbUndo:
		rec.State, rec.Again = topsv1.OperationTaskUndoing, ""
	}
	if s.op.Held {
		s.resume(now)
	}
}

// resume continues a held operation. What was in progress begins again, after what has to
// be true before it: a person may have uncordoned the node meanwhile, and pods be back.
func (s *step) resume(now metav1.Time) {
	s.op.Held, s.op.EndTime, s.op.StartTime = false, nil, now
	s.phase(topsv1.OperationRunning)
	for i := range s.op.Tasks {
		if t := &s.op.Tasks[i]; t.State == topsv1.OperationTaskRunning {
			t.State, t.StartTime = topsv1.OperationTaskPending, nil
		}
	}
}

func (s *step) retry(t upgradeplan.Task, rec *topsv1.OperationTask) {
	rec.State = topsv1.OperationTaskPending
	switch t.Action {
	case upgradeplan.ActionReplace:
		if m := s.member(t.Target); m != nil && m.Pod != nil {
			rec.Again = m.Pod.UID
		}
	case upgradeplan.ActionPrecheck:
		if !s.op.Touched {
			s.op.Before = nil
		}
	}
}

// CheckOverride says why a value of the annotation AnnotationTaskOverride on the
// NodeUpgrade of a node is ignored by an operation of it, nil when it is acted on.
func (m *Machine) CheckOverride(wanted *topsv1.NodeOperation, node, value string) error {
	job, err := jobOf(wanted, node)
	if err != nil {
		return err
	}
	_, _, err = (&step{machine: m, wanted: wanted, job: job}).readOverride(value)
	return err
}

// readOverride reads VERB:TASK[:NOTE]. The error says what is wrong: a bad value
// never becomes another one (invariant S12).
func (s *step) readOverride(value string) (verb string, t upgradeplan.Task, err error) {
	parts := strings.SplitN(value, ":", 3)
	if len(parts) < 2 || !slices.Contains([]string{verbRetry, verbSkip, verbUndo}, parts[0]) {
		return "", t, fmt.Errorf("it is not of the form retry:TASK, skip:TASK or undo:TASK")
	}
	verb = parts[0]
	if t, err = upgradeplan.ParseTask(parts[1]); err != nil {
		return "", t, err
	}
	if s.stageOf(t) < 0 {
		return "", t, fmt.Errorf("the job has no task %s", t)
	}
	switch {
	case verb == verbSkip && (t.Action == upgradeplan.ActionCordon || t.Action == upgradeplan.ActionUncordon):
		return "", t, fmt.Errorf("task %s cannot be skipped: abort the operation", t)
	case verb == verbUndo:
		undo, ok := s.machine.book.Undo(t)
		if !ok || undo.Action != upgradeplan.ActionRestore {
			return "", t, fmt.Errorf("task %s has no undo of its own: abort the operation", t)
		}
		if s.target(t.Target).Previous == "" {
			return "", t, fmt.Errorf("task %s cannot be undone: the revision before is not known", t)
		}
	}
	return verb, t, nil
}

// say is a message for people, which complains of an override that cannot be
// carried out as long as it is there.
func (s *step) say(text string) string {
	if s.f.Override == "" || s.wanted == nil {
		return text
	}
	if _, _, err := s.readOverride(s.f.Override); err != nil {
		text = strings.TrimPrefix(fmt.Sprintf("%s; annotation %s is ignored: %v", text, topsv1.AnnotationTaskOverride, err), "; ")
	}
	return text
}
