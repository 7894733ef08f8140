package operation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// replace deletes the outdated pod of a component and waits for its successor. It is
// done when the pod has the wanted revision, is available, and is younger than the
// driver's if it uses the device. A missed deadline fails the operation, as a pod does
// that restarts again and again.
type replace struct{ base }

func (replace) done(s *snapshot, t upgradeplan.Task) bool {
	m := s.member(t.Target)
	return m != nil && m.Pod != nil && !m.Pod.Terminating && m.Pod.Available && !outdated(s, t, m.Pod, s.target(t.Target).Revision)
}

func (r replace) attempt(c *changes, t upgradeplan.Task) verdict {
	pod, why := r.outgoing(c, t)
	if pod == nil {
		return why
	}
	return r.deletePod(c, t, pod)
}

func (replace) deadline(s *snapshot, why verdict) deadline {
	if why.reason == ReasonDeviceInUse || why.reason == ReasonDrainTimeout {
		return deadline{s.limits.progress, s.blame(), why.reason}
	}
	return deadline{s.limits.progress, s.blame(), ReasonProgressDeadline}
}

// lasts as others do, unless the pod is seen at another revision.
func (r replace) lasts(s *snapshot, t upgradeplan.Task) bool {
	if m := s.member(t.Target); m != nil && m.Pod != nil && m.Pod.Revision != s.target(t.Target).Revision {
		return false
	}
	return r.base.lasts(s, t)
}

// retry has the pod that is there replaced, though it is not outdated.
func (replace) retry(c *changes, t upgradeplan.Task) {
	if m := c.member(t.Target); m != nil && m.Pod != nil {
		c.task(t).Again = m.Pod.UID
	}
}

// superseded says that the DaemonSet has a newer revision than the wanted one, which
// is no concern of a task that was skipped or undone, or whose pod is at its target.
func (replace) superseded(s *snapshot, t upgradeplan.Task) string {
	switch s.recorded(t).State {
	case topsv1.OperationTaskSkipped, topsv1.OperationTaskUndoing, topsv1.OperationTaskUndone:
		return ""
	}
	member := s.member(t.Target)
	target := s.target(t.Target)
	if !s.atTarget(t) && member != nil && target != nil &&
		member.Newest != "" && member.Newest != target.Revision {
		return fmt.Sprintf("DaemonSet %s has newest revision %s, the operation is for %s", member.DaemonSet, member.Newest, target.Revision)
	}
	return ""
}

// outgoing returns the pod that can be deleted now, or nil and what is waited for. A
// task that is undone goes back to the revision before.
func (r replace) outgoing(c *changes, t upgradeplan.Task) (*Pod, verdict) {
	m, revision := c.member(t.Target), c.target(t.Target).Revision
	if c.recorded(t).State == topsv1.OperationTaskUndoing {
		revision = c.target(t.Target).Previous
	}
	switch {
	case m == nil:
		return nil, waiting(ReasonInProgress, "the DaemonSet of %s is not there", t.Target)
	case m.Pod == nil:
		return nil, waiting(ReasonInProgress, "DaemonSet %s has no pod on the node yet", m.DaemonSet)
	case m.Pod.Terminating:
		return nil, waiting(ReasonInProgress, "pod %s terminates", m.Pod.Name)
	case !outdated(c.snapshot, t, m.Pod, revision):
		return nil, r.successor(c, t, m.Pod)
	case m.Uncontrolled:
		return nil, waiting(ReasonInProgress, "DaemonSet %s has another updateStrategy than OnDelete: its pods are left alone", m.DaemonSet)
	case m.Newest != revision:
		return nil, waiting(ReasonInProgress, "the newest revision of DaemonSet %s is %q, not %s yet", m.DaemonSet, m.Newest, revision)
	}
	return m.Pod, verdict{}
}

// successor judges a pod of the wanted revision that is not available: whoever put
// it there, what becomes of it says something of the version.
func (replace) successor(c *changes, t upgradeplan.Task, pod *Pod) verdict {
	rec := c.task(t)
	c.op.Touched = c.op.Touched || rec.State != topsv1.OperationTaskUndoing
	switch {
	case pod.Available && rec.State == topsv1.OperationTaskUndoing:
		now := metav1.NewTime(c.f.Now)
		rec.State, rec.EndTime = topsv1.OperationTaskUndone, &now
		c.soon()
		return waiting(ReasonInProgress, "pod %s is back at the revision before", pod.Name)
	case pod.CrashLooping && !pod.Available:
		text := fmt.Sprintf("pod %s restarts again and again", pod.Name)
		if pod.LastWords != "" {
			text += ": " + pod.LastWords
		}
		return verdict{phase: c.blame(), reason: ReasonCrashLoop, text: text}
	}
	return waiting(ReasonInProgress, "pod %s is not available yet", pod.Name)
}

// deletePod names a pod, which is stored first, and deletes it as it was named.
func (replace) deletePod(c *changes, t upgradeplan.Task, pod *Pod) verdict {
	rec := c.task(t)
	if rec.Pod != nil && !daemonset.Newer(pod.ResourceVersion, rec.Pod.ResourceVersion) && pod.NamedPod != *rec.Pod {
		return waiting(ReasonInProgress, "pod %s is seen as it was before it was named", pod.Name)
	}
	named := pod.NamedPod
	rec.Pod = &named
	c.op.Touched = true
	c.onPod(DeletePod, named)
	return waiting(ReasonInProgress, "pod %s is replaced", pod.Name)
}

// outdated reports whether a pod has to go: it has another revision, it uses the
// device and is from before the driver, or a person wants it replaced again.
func outdated(s *snapshot, t upgradeplan.Task, pod *Pod, revision string) bool {
	rec := s.recorded(t)
	if pod.Revision != revision || rec.Again != "" && rec.Again == pod.UID {
		return true
	}
	driver := s.member(upgradeplan.TargetDriver)
	return s.uses(t.Target) && s.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver) &&
		driver != nil && driver.Pod != nil && pod.Created.Before(driver.Pod.Created)
}
