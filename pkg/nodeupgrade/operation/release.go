package operation

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// historyLimit is how many operations are remembered.
const historyLimit = 20

// end decides how the operation ends. The node is given back, except when
// something of a version that failed is on it: then it is kept cordoned until
// another operation, a person, or the end of the rollout.
func (s *step) end(phase topsv1.OperationPhase, reason, text string) {
	if phase == topsv1.OperationFailed && s.op.Purpose == topsv1.PurposeRollback {
		phase = topsv1.OperationQuarantined
	}
	s.op.Reason, s.op.Message = reason, s.say(text)
	if s.op.Touched && (phase == topsv1.OperationFailed || phase == topsv1.OperationQuarantined) {
		s.op.Held = true
		s.phase(phase)
		s.archive()
		return
	}
	s.op.Outcome = phase
	s.phase(topsv1.OperationReleasing)
	s.soon()
}

// release gives the node back: what may still happen to it for this operation is
// waited for or made impossible first, then the device is opened and the node
// uncordoned. It needs no more than the record, so every operation can be
// released.
func (s *step) release() {
	if s.restartPending() || s.fence() {
		return
	}
	if s.f.Node.Taint == s.op.ID {
		s.onNode(Effect{Kind: OpenDevice})
		return
	}
	if change := drain.DecideUncordon(s.f.Node.Cordon, s.op.ID); change.Needed() {
		s.onNode(Effect{Kind: Uncordon, Change: change})
		return
	}
	s.finish()
}

// restartPending reports whether the agent may restart the runtime any moment: what it
// is asked for until the deadline it may begin then, and goes on with for as long.
func (s *step) restartPending() bool {
	for i := range s.op.Tasks {
		t := &s.op.Tasks[i]
		if t.Attempts == 0 || t.StartTime == nil || !strings.HasSuffix(t.Name, "_"+upgradeplan.ActionRestartRuntime) ||
			s.op.Outcome == topsv1.OperationDone {
			continue
		}
		result := s.f.Host.Result(s.op.ID, t.Name)
		deadline := t.StartTime.Add(2 * s.limits.restart)
		if (result == nil || !result.State.Final()) && s.f.Now.Before(deadline) {
			s.at(deadline)
			return true
		}
	}
	return false
}

// fence makes deletions impossible that were decided and not seen to happen: a
// manager that was interrupted may still carry them out. It reports whether there
// are any.
func (s *step) fence() bool {
	pending := false
	for i := range s.op.Tasks {
		if named := s.op.Tasks[i].Pod; named != nil {
			pending = s.fencePod(*named) || pending
		}
		for _, named := range s.op.Tasks[i].Users {
			pending = s.fencePod(named) || pending
		}
	}
	return pending
}

// fencePod reports whether a pod is still as it was named, or older.
func (s *step) fencePod(named topsv1.NamedPod) (pending bool) {
	for _, m := range s.f.Members {
		pod := m.Pod
		if pod == nil || pod.UID != named.UID || pod.Terminating || daemonset.Newer(pod.ResourceVersion, named.ResourceVersion) {
			continue
		}
		pending = true
		if pod.NamedPod == named {
			s.effects = append(s.effects, Effect{Kind: FencePod, Operation: s.op.ID, Pod: named})
		}
	}
	return pending
}

// finish ends the operation, with the node given back.
func (s *step) finish() {
	if s.op.Outcome == topsv1.OperationDone {
		now := metav1.NewTime(s.f.Now)
		for i := range s.op.Tasks {
			if t := &s.op.Tasks[i]; t.State == topsv1.OperationTaskPending || t.State == topsv1.OperationTaskRunning {
				t.State, t.EndTime = topsv1.OperationTaskDone, &now
			}
		}
	}
	s.op.Task = ""
	s.phase(s.op.Outcome)
	s.op.Outcome = ""
	s.archive()
}

// archive puts the operation into the history, once.
func (s *step) archive() {
	if s.op.EndTime == nil {
		now := metav1.NewTime(s.f.Now)
		s.op.EndTime = &now
	}
	record := topsv1.OperationRecord{ID: s.op.ID, Purpose: s.op.Purpose, Revision: s.op.Revision, Phase: s.op.Phase,
		Reason: s.op.Reason, Message: s.op.Message, StartTime: s.op.StartTime, EndTime: *s.op.EndTime, Result: resultOf(s.op.Tasks)}
	history := slices.DeleteFunc(slices.Clone(s.history), func(r topsv1.OperationRecord) bool { return r.ID == s.op.ID })
	history = append(history, record)
	s.history = history[max(0, len(history)-historyLimit):]
}

// resultOf sorts tasks as the upgrade framework does (contract statement 93).
func resultOf(tasks []topsv1.OperationTask) topsv1.OperationResult {
	var r topsv1.OperationResult
	for _, t := range tasks {
		switch t.State {
		case topsv1.OperationTaskDone:
			r.Done = append(r.Done, t.Name)
		case topsv1.OperationTaskFailed:
			r.Fail = append(r.Fail, t.Name)
		default:
			r.Undo = append(r.Undo, t.Name)
		}
	}
	return r
}

// leftovers takes away what a manager that was interrupted left on the node for an
// operation after its end. Only an operation in the history has surely ended: one
// that is not known may be newer than the record that was read.
func (s *step) leftovers() {
	if id := s.f.Node.Taint; s.ended(id) {
		s.onNode(Effect{Kind: OpenDevice, Operation: id})
	}
	id := s.f.Node.Cordon.Mark
	if change := drain.DecideUncordon(s.f.Node.Cordon, id); s.ended(id) && change.Needed() {
		s.onNode(Effect{Kind: Uncordon, Operation: id, Change: change})
	}
}

func (s *step) ended(id string) bool {
	if s.op != nil && s.op.ID == id && (!s.op.Phase.Final() || s.op.Held) {
		return false
	}
	return slices.ContainsFunc(s.history, func(r topsv1.OperationRecord) bool { return r.ID == id })
}
