package operation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// outdated reports whether a pod has to go: it has another revision, it uses the
// device and is from before the driver, or a person wants it replaced again.
func (s *step) outdated(t upgradeplan.Task, rec *topsv1.OperationTask, pod *Pod, revision string) bool {
	if pod.Revision != revision || rec.Again != "" && rec.Again == pod.UID {
		return true
	}
	driver := s.member(upgradeplan.TargetDriver)
	return s.machine.Uses(t.Target) && s.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver) &&
		driver != nil && driver.Pod != nil && pod.Created.Before(driver.Pod.Created)
}

// replaced reports whether the pod of a component is what it is to be, and available.
func (s *step) replaced(t upgradeplan.Task, rec *topsv1.OperationTask) bool {
	m := s.member(t.Target)
	return m != nil && m.Pod != nil && !m.Pod.Terminating && m.Pod.Available && !s.outdated(t, rec, m.Pod, s.target(t.Target).Revision)
}

// atTarget reports whether the pod of a component has its wanted revision already.
func (s *step) atTarget(t upgradeplan.Task) bool {
	m := s.member(t.Target)
	return m != nil && m.Pod != nil && m.Pod.Revision == s.target(t.Target).Revision
}

// settled reports whether a newer revision of the DaemonSet is no concern of a task.
func (s *step) settled(t upgradeplan.Task) bool {
	switch s.task(t).State {
	case topsv1.OperationTaskSkipped, topsv1.OperationTaskUndoing, topsv1.OperationTaskUndone:
		return true
	}
	return s.atTarget(t)
}

// replace deletes the pod that is outdated and waits for its successor. A task
// that is undone does the same for the revision before.
func (s *step) replace(t upgradeplan.Task, rec *topsv1.OperationTask) verdict {
	m, revision := s.member(t.Target), s.target(t.Target).Revision
	if rec.State == topsv1.OperationTaskUndoing {
		revision = s.target(t.Target).Previous
	}
	switch {
	case m == nil:
		return waiting(ReasonInProgress, "the DaemonSet of %s is not there", t.Target)
	case m.Pod == nil:
		return waiting(ReasonInProgress, "DaemonSet %s has no pod on the node yet", m.DaemonSet)
	case m.Pod.Terminating:
		return waiting(ReasonInProgress, "pod %s terminates", m.Pod.Name)
	case !s.outdated(t, rec, m.Pod, revision):
		return s.successor(rec, m.Pod)
	case m.Uncontrolled:
		return waiting(ReasonInProgress, "DaemonSet %s has another updateStrategy than OnDelete: its pods are left alone", m.DaemonSet)
	case m.Newest != revision:
		return waiting(ReasonInProgress, "the newest revision of DaemonSet %s is %q, not %s yet", m.DaemonSet, m.Newest, revision)
	}
	if t.Target == upgradeplan.TargetDriver {
		if v, ready := s.readyForDriver(rec); !ready {
			return v
		}
	}
	return s.deletePod(rec, m.Pod)
}

// successor judges a pod of the wanted revision that is not available: whoever put
// it there, what becomes of it says something of the version.
func (s *step) successor(rec *topsv1.OperationTask, pod *Pod) verdict {
	s.op.Touched = s.op.Touched || rec.State != topsv1.OperationTaskUndoing
	switch {
	case pod.Available && rec.State == topsv1.OperationTaskUndoing:
		now := metav1.NewTime(s.f.Now)
		rec.State, rec.EndTime = topsv1.OperationTaskUndone, &now
		s.soon()
		return waiting(ReasonInProgress, "pod %s is back at the revision before", pod.Name)
	case pod.CrashLooping && !pod.Available:
		text := fmt.Sprintf("pod %s restarts again and again", pod.Name)
		if pod.LastWords != "" {
			text += ": " + pod.LastWords
		}
		return verdict{phase: s.blame(), reason: ReasonCrashLoop, text: text}
	}
	return waiting(ReasonInProgress, "pod %s is not available yet", pod.Name)
}

// readyForDriver empties the node, closes the device and stops what uses it, in
// this order (invariant S8); what is deleted for that is named first. ready is true
// when nothing is left that uses it.
func (s *step) readyForDriver(rec *topsv1.OperationTask) (v verdict, ready bool) {
	switch {
	case !s.cordoned():
		return waiting(ReasonCordonHeld, "the node is not cordoned"), false
	case !s.f.Drained.Empty && !s.skipped(upgradeplan.ActionEvict):
		s.evict()
		return waiting(ReasonDrainTimeout, "%s", s.f.Drained.Message), false
	case s.f.Node.Taint != "" && s.f.Node.Taint != s.op.ID:
		return waiting(ReasonCordonHeld, "operation %s keeps the device closed", s.f.Node.Taint), false
	case s.f.Node.Taint == "":
		s.onNode(Effect{Kind: CloseDevice})
		return waiting(ReasonInProgress, "the device is being closed"), false
	}
	var left []string
	for i := range s.f.Members {
		m := &s.f.Members[i]
		if m.Pod == nil || !s.machine.Uses(m.Component) {
			continue
		}
		left = append(left, m.Pod.Namespace+"/"+m.Pod.Name)
		if !m.Pod.Terminating && !m.Uncontrolled && nameUser(rec, m.Pod.NamedPod) {
			s.effects = append(s.effects, Effect{Kind: DeletePod, Operation: s.op.ID, Pod: m.Pod.NamedPod})
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		return waiting(ReasonDeviceInUse, "what uses the device is being stopped: %s", strings.Join(left, ", ")), false
	}
	return verdict{}, true
}

// nameUser notes a pod that uses the device as one that may be deleted. It returns false
// for one that is seen as it was before it was named.
func nameUser(rec *topsv1.OperationTask, pod topsv1.NamedPod) bool {
	i := slices.IndexFunc(rec.Users, func(named topsv1.NamedPod) bool { return named.UID == pod.UID })
	switch {
	case i < 0:
		rec.Users = append(slices.Clip(rec.Users), pod)
	case rec.Users[i] == pod:
	case !daemonset.Newer(pod.ResourceVersion, rec.Users[i].ResourceVersion):
		return false
	default:
		rec.Users = slices.Clone(rec.Users)
		rec.Users[i] = pod
	}
	return true
}

func (s *step) skipped(action string) bool {
	for t := range s.job.All() {
		if t.Action == action && s.task(t).State == topsv1.OperationTaskSkipped {
			return true
		}
	}
	return false
}

// deletePod names a pod, which is stored first, and deletes it as it was named.
func (s *step) deletePod(rec *topsv1.OperationTask, pod *Pod) verdict {
	if rec.Pod != nil && !daemonset.Newer(pod.ResourceVersion, rec.Pod.ResourceVersion) && pod.NamedPod != *rec.Pod {
		return waiting(ReasonInProgress, "pod %s is seen as it was before it was named", pod.Name)
	}
	named := pod.NamedPod
	rec.Pod = &named
	s.op.Touched = true
	s.effects = append(s.effects, Effect{Kind: DeletePod, Operation: s.op.ID, Pod: named})
	return waiting(ReasonInProgress, "pod %s is replaced", pod.Name)
}

// openDevice lets the users of the device come back once no task needs them away.
func (s *step) openDevice() {
	if s.f.Node.Taint != s.op.ID {
		return
	}
	for t := range s.job.All() {
		if state := s.task(t).State; closes(t) && state != topsv1.OperationTaskDone &&
			state != topsv1.OperationTaskSkipped && state != topsv1.OperationTaskUndone {
			return
		}
	}
	s.onNode(Effect{Kind: OpenDevice})
}

// closes are the tasks during which what uses the device stays away: until the
// driver was seen to work, and the runtime is the one its users need.
func closes(t upgradeplan.Task) bool {
	switch t.Action {
	case upgradeplan.ActionRestartRuntime:
		return true
	case upgradeplan.ActionReplace:
		return t.Target == upgradeplan.TargetDriver || t.Target == upgradeplan.TargetToolkit
	case upgradeplan.ActionVerify:
		return t.Target == upgradeplan.TargetDriver || t.Target == upgradeplan.TargetRuntime
	}
	return false
}
