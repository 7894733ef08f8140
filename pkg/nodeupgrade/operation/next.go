package operation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Machine decides about operations on nodes. It is a value of the logic book and
// keeps nothing.
type Machine struct {
	book upgradeplan.Book
	// users are the components that hold the device open.
	users []string
}

// New returns a Machine for a logic book. The error says what is wrong with it.
func New(book upgradeplan.Book) (*Machine, error) {
	users, err := usersOfDevice(book)
	if err != nil {
		return nil, fmt.Errorf("reading who uses the device: %w", err)
	}
	return &Machine{book: book, users: users}, nil
}

// usersOfDevice asks the book what is replaced because a driver is: that is what
// holds the device open.
func usersOfDevice(book upgradeplan.Book) ([]string, error) {
	node := upgradeplan.Node{Name: "node", Changed: []string{upgradeplan.TargetDriver}}
	for _, t := range book.Targets {
		if !t.OfNode {
			node.Deployed = append(node.Deployed, t.Name)
		}
	}
	tasks, err := upgradeplan.Generate(book, []upgradeplan.Node{node})
	if err != nil {
		return nil, err
	}
	var users []string
	for _, t := range tasks {
		if t.Action == upgradeplan.ActionReplace && t.Target != upgradeplan.TargetDriver {
			users = append(users, t.Target)
		}
	}
	return users, nil
}

// Uses reports whether a component holds the device open, so that it is stopped
// while the driver is replaced.
func (m *Machine) Uses(component string) bool { return slices.Contains(m.users, component) }

// Next decides about the operation of one node (design section 4). It looks at
// nothing but its input, and the same input has the same answer.
func (m *Machine) Next(f Facts) Decision {
	s := &step{machine: m, f: &f, op: f.Record.Operation.DeepCopy(), history: f.Record.History}
	s.leftovers()
	s.decide()
	return Decision{Record: Record{Operation: s.op, History: s.history}, Effects: s.effects, After: s.after}
}

// step is one decision in the making.
type step struct {
	machine *Machine
	f       *Facts
	// op is the record that becomes the new one; wanted the operation it is about,
	// nil when that is no more known; job its tasks.
	op      *topsv1.OperationStatus
	wanted  *topsv1.NodeOperation
	job     upgradeplan.Job
	limits  limits
	history []topsv1.OperationRecord
	effects []Effect
	after   time.Duration
}

func (s *step) decide() {
	wanted := s.f.Wanted
	over := s.op == nil || s.op.Phase.Final() && !s.op.Held
	switch {
	case over && (wanted == nil || s.op != nil && s.op.ID == wanted.ID):
		return
	case over:
		s.accept(wanted)
		return
	case wanted == nil || wanted.ID != s.op.ID:
		s.limits = limitsOf(&topsv1.NodeOperation{})
		s.abandon(wanted)
	default:
		s.wanted, s.limits = wanted, limitsOf(wanted)
		s.job, _ = jobOf(wanted, s.f.Node.Name) // it was understood when it was accepted
		s.goOn()
	}
}

// accept records a new operation, which begins at the next decision.
func (s *step) accept(wanted *topsv1.NodeOperation) {
	now := metav1.NewTime(s.f.Now)
	s.op = &topsv1.OperationStatus{ID: wanted.ID, Purpose: wanted.Purpose, Revision: wanted.Revision, Rollout: wanted.Rollout,
		Phase: topsv1.OperationRunning, Reason: ReasonInProgress, Since: now, StartTime: now, Granted: wanted.Granted, Override: s.f.Override}
	job, err := jobOf(wanted, s.f.Node.Name)
	if err == nil {
		_, err = drain.PolicyOf(wanted.Drain)
	}
	if err == nil && slices.ContainsFunc(s.history, func(r topsv1.OperationRecord) bool { return r.ID == wanted.ID }) {
		err = fmt.Errorf("operation %s has ended before: another one needs another id", wanted.ID)
	}
	if err != nil {
		s.op.Phase, s.op.Outcome = topsv1.OperationReleasing, topsv1.OperationAborted
		s.op.Reason, s.op.Message = ReasonBadOperation, err.Error()
		s.finish()
		return
	}
	for t := range job.All() {
		s.op.Tasks = append(s.op.Tasks, topsv1.OperationTask{Name: t.String(), State: topsv1.OperationTaskPending})
	}
	s.soon()
}

// abandon ends an operation that is no longer wanted.
func (s *step) abandon(wanted *topsv1.NodeOperation) {
	switch {
	case s.op.Phase == topsv1.OperationReleasing:
	case s.op.Held:
		s.op.Held = false
		s.op.Outcome = s.op.Phase
		s.phase(topsv1.OperationReleasing)
	case wanted == nil:
		s.end(topsv1.OperationAborted, ReasonWithdrawn, "the operation is not wanted any more")
	default:
		s.end(topsv1.OperationAborted, ReasonSuperseded, fmt.Sprintf("operation %s is wanted instead", wanted.ID))
	}
	s.release()
}

// goOn carries an operation on that is wanted.
func (s *step) goOn() {
	if s.op.Phase == topsv1.OperationReleasing {
		s.release()
		return
	}
	if s.wanted.Abort {
		if s.op.Held {
			s.op.Held, s.op.Outcome = false, s.op.Phase
			s.phase(topsv1.OperationReleasing)
		} else {
			s.end(topsv1.OperationAborted, ReasonAborted, "a person aborted the operation")
		}
		s.release()
		return
	}
	s.override()
	if s.op.Held {
		return
	}
	if s.wanted.Granted && !s.op.Granted {
		s.grant()
		return
	}
	if phase, reason, text := s.over(); phase != "" {
		s.end(phase, reason, text)
		return
	}
	if !s.f.Node.Ready {
		s.wait(ReasonNodeOffline, "the node is not Ready: nothing is done on it until it is back")
		s.at(s.f.Node.Since.Add(s.limits.lost))
		if !s.awaits() {
			s.at(s.op.StartTime.Add(s.limits.operation))
		}
		return
	}
	s.run()
}

// grant records that the node has its slot: the deadlines count from now. It may
// have waited for long, so it is prechecked once more.
func (s *step) grant() {
	s.op.Granted, s.op.StartTime = true, metav1.NewTime(s.f.Now)
	s.op.Before = nil
	s.soon()
}

// over says whether the operation ends for a reason that no task has.
func (s *step) over() (phase topsv1.OperationPhase, reason, text string) {
	n := s.f.Node
	switch {
	case n.UID != s.wanted.NodeUID:
		return topsv1.OperationAborted, ReasonNodeReplaced, "the Node object is not the one that the operation is about"
	case !s.awaits() && !s.f.Now.Before(s.op.StartTime.Add(s.limits.operation)):
		return s.blame(), ReasonOperationDeadline, fmt.Sprintf("the operation is not done after %s", s.limits.operation)
	case !n.Ready && !s.f.Now.Before(n.Since.Add(s.limits.lost)):
		return s.blame(), ReasonNodeLost, fmt.Sprintf("the node was not Ready for %s", s.limits.lost)
	}
	for t := range s.job.All() {
		member := s.member(t.Target)
		target := s.target(t.Target)
		if t.Action == upgradeplan.ActionReplace && !s.settled(t) && member != nil && target != nil &&
			member.Newest != "" && member.Newest != target.Revision {
			return topsv1.OperationAborted, ReasonTargetChanged,
				fmt.Sprintf("DaemonSet %s has newest revision %s, the operation is for %s", member.DaemonSet, member.Newest, target.Revision)
		}
	}
	return "", "", ""
}

// awaits reports whether the operation was prepared and waits for its slot, which
// may take as long as it takes.
func (s *step) awaits() bool { return !s.op.Granted && s.op.PreparedTime != nil }

// blame is Failed, which counts against the version, only when something of it
// was put on the node.
func (s *step) blame() topsv1.OperationPhase {
	if s.op.Touched {
		return topsv1.OperationFailed
	}
	return topsv1.OperationDeferred
}

// jobOf reads the job of an operation. The error says what cannot be understood.
func jobOf(op *topsv1.NodeOperation, node string) (upgradeplan.Job, error) {
	var job upgradeplan.Job
	for _, names := range op.Job {
		var stage upgradeplan.Stage
		for _, name := range names {
			t, err := upgradeplan.ParseTask(string(name))
			if err != nil {
				return nil, err
			}
			stage = append(stage, t)
		}
		job = append(job, stage)
	}
	if err := job.Validate(); err != nil {
		return nil, err
	}
	if job.Host() != node {
		return nil, fmt.Errorf("the job is of host %s, not of this node", job.Host())
	}
	for t := range job.All() {
		if err := known(op, t); err != nil {
			return nil, err
		}
	}
	return job, nil
}

func known(op *topsv1.NodeOperation, t upgradeplan.Task) error {
	switch t.Action {
	case upgradeplan.ActionPrepull, upgradeplan.ActionReplace:
		if !slices.ContainsFunc(op.Targets, func(o topsv1.OperationTarget) bool { return o.Component == t.Target }) {
			return fmt.Errorf("task %s: the operation has no target %s", t, t.Target)
		}
		return nil
	case upgradeplan.ActionVerify:
		if !slices.Contains([]string{upgradeplan.TargetDriver, upgradeplan.TargetRuntime, upgradeplan.TargetAllocatable}, t.Target) {
			return fmt.Errorf("task %s: nothing is known of verifying %s", t, t.Target)
		}
		return nil
	case upgradeplan.ActionPrecheck, upgradeplan.ActionCordon, upgradeplan.ActionEvict, upgradeplan.ActionRestartRuntime,
		upgradeplan.ActionSoak, upgradeplan.ActionUncordon:
		if t.Target != upgradeplan.TargetNode {
			return fmt.Errorf("task %s: %s is done to the target node", t, t.Action)
		}
		return nil
	}
	return fmt.Errorf("task %s: nothing is known of the action %s", t, t.Action)
}
