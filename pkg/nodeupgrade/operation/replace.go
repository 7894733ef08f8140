package operation

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// replace deletes the outdated pod of a component and waits for its successor. It is done
// when the pod has the wanted revision, is available and, if it uses the device, is younger
// than the driver's pod. If the component has a new name, its old DaemonSet leaves the node first.
// A missed deadline or a crash loop fails the operation, unless the node
// accepts no successor, or the pod may not be deleted.
type replace struct{ base }

func (replace) done(f *Facts, t upgradeplan.Task) bool {
	list := f.replaced(t.Target)
	return len(list) > 0 && !slices.ContainsFunc(list, func(r replaced) bool { return !arrived(f, t, r) })
}

// arrived reports whether the pod of one DaemonSet is as wanted. One that leaves need not have one.
func arrived(f *Facts, t upgradeplan.Task, r replaced) bool {
	if r.pod() == nil {
		return r.leaves()
	}
	return !r.Pod.Terminating && r.Pod.Available && !outdated(f, t, r.Pod, r.revision)
}

func (r replace) attempt(c *changes, t upgradeplan.Task) verdict {
	pod, why := r.outgoing(c, t)
	if pod == nil {
		return why
	}
	return r.deletePod(c, t, pod)
}

func (replace) deadline(f *Facts, why verdict) deadline {
	switch why.reason {
	case ReasonNoSuccessor, ReasonDeletionDenied:
		return deadline{f.limits.progress, topsv1.OperationDeferred, why.reason}
	case ReasonDeviceInUse, ReasonDrainTimeout:
		return deadline{f.limits.progress, f.blame(), why.reason}
	}
	return deadline{f.limits.progress, f.blame(), ReasonProgressDeadline}
}

// lasts like other tasks, unless the pod is at another revision.
func (r replace) lasts(f *Facts, t upgradeplan.Task) bool {
	if slices.ContainsFunc(f.replaced(t.Target), func(of replaced) bool { return of.pod() != nil && !of.atTarget() }) {
		return false
	}
	return r.base.lasts(f, t)
}

// retry marks the existing pod for replacement, although it is not outdated.
func (replace) retry(c *changes, t upgradeplan.Task) {
	for _, of := range c.replaced(t.Target) { // the last is the one that stays
		if of.pod() != nil {
			c.task(t).Again = of.Pod.UID
		}
	}
}

// superseded returns a message when the DaemonSet's newest revision is not the one that the operation is for. A
// task that was skipped, or whose pod is at its target, is never superseded, unless the operation took over the cordon of one that
// failed: the node waits for a version that works. Nor is one in state Undone, which only earlier versions recorded.
func (replace) superseded(f *Facts, t upgradeplan.Task) string {
	switch f.recorded(t).State {
	case topsv1.OperationTaskSkipped, topsv1.OperationTaskUndone:
		return ""
	}
	for _, of := range f.replaced(t.Target) {
		if of.Member != nil && (!of.atTarget() || f.Operation.CordonedBy != "") && of.Newest != "" && of.Newest != of.newest {
			return fmt.Sprintf("DaemonSet %s has newest revision %s, the operation is for %s", of.DaemonSet, of.Newest, of.newest)
		}
	}
	return ""
}

// outgoing returns the pod to delete now, or nil and why the task waits.
func (r replace) outgoing(c *changes, t upgradeplan.Task) (*Pod, verdict) {
	for _, of := range c.replaced(t.Target) {
		if !arrived(c.Facts, t, of) {
			return r.outgoingOf(c, t, of)
		}
	}
	return nil, waiting(ReasonInProgress, "the pods of %s are being replaced", t.Target)
}

func (r replace) outgoingOf(c *changes, t upgradeplan.Task, of replaced) (*Pod, verdict) {
	m := of.Member
	switch {
	case m == nil:
		return nil, waiting(ReasonInProgress, "the DaemonSet of %s does not exist", t.Target)
	case m.Pod == nil && m.NoSuccessor != "":
		return nil, noSuccessor(m)
	case m.Pod == nil:
		return nil, waiting(ReasonInProgress, "DaemonSet %s has no pod on the node yet", m.DaemonSet)
	case m.Pod.Terminating:
		return nil, waiting(ReasonInProgress, "pod %s terminates", m.Pod.Name)
	case !outdated(c.Facts, t, m.Pod, of.revision):
		return nil, r.successor(c, m.Pod)
	case m.Uncontrolled:
		return nil, waiting(ReasonInProgress, "DaemonSet %s has an updateStrategy other than OnDelete: its pods are not replaced", m.DaemonSet)
	case m.Newest != of.newest:
		return nil, waiting(ReasonInProgress, "the newest revision of DaemonSet %s is %q, not %s yet", m.DaemonSet, m.Newest, of.newest)
	case m.Pod.Gated:
		return nil, waiting(ReasonInProgress, "pod %s waits at the gate until the pod of revision %s is created", m.Pod.Name, of.revision)
	case m.NoSuccessor != "":
		return nil, noSuccessor(m)
	}
	return m.Pod, verdict{}
}

// noSuccessor waits until the node accepts a new pod of a DaemonSet again. Until then a pod is
// not deleted, and a missed deadline defers the operation.
func noSuccessor(m *Member) verdict {
	return waiting(ReasonNoSuccessor, "no pod of DaemonSet %s would be created: %s; change the node or the DaemonSet", m.DaemonSet, m.NoSuccessor)
}

// successor judges a pod at the wanted revision. It counts for or against the version, even if
// another client caused it.
func (replace) successor(c *changes, pod *Pod) verdict {
	c.Operation.Touched = true
	if pod.CrashLooping && !pod.Available {
		text := fmt.Sprintf("pod %s restarts repeatedly", pod.Name)
		if pod.TerminationMessage != "" {
			text += ": " + pod.TerminationMessage
		}
		return verdict{phase: c.blame(), reason: ReasonCrashLoop, text: text}
	}
	return waiting(ReasonInProgress, "pod %s is not available yet", pod.Name)
}

// deletePod records the pod, and deletes it at the recorded UID and resourceVersion.
func (replace) deletePod(c *changes, t upgradeplan.Task, pod *Pod) verdict {
	rec := c.task(t)
	if pod.Placeholder { // besides the pod that it takes over from
		if c.nameUser(rec, pod.NamedPod) {
			c.onPod(DeletePod, pod.NamedPod)
		}
		return waiting(ReasonInProgress, "pod %s is being replaced", pod.Name)
	}
	if rec.Pod != nil && !daemonset.Newer(pod.ResourceVersion, rec.Pod.ResourceVersion) && pod.NamedPod != *rec.Pod {
		return waiting(ReasonInProgress, "waiting for the newest state of pod %s: the cache is older than the record", pod.Name)
	}
	named := pod.NamedPod
	rec.Pod = &named
	c.Operation.Touched = true
	c.onPod(DeletePod, named)
	if cause := c.denied(pod); cause != "" {
		reason := ReasonDeletionDenied
		if rec.Again == pod.UID { // it has the version, and a person retried the task
			reason = ReasonInProgress
		}
		return waiting(reason, "the API server denied the deletion of pod %s; retrying: %s", pod.Name, cause)
	}
	return waiting(ReasonInProgress, "pod %s is being replaced", pod.Name)
}

// outdated reports whether a pod must be replaced: it has another revision, it uses the
// device and is older than the driver's pod, or a person retried the task.
func outdated(f *Facts, t upgradeplan.Task, pod *Pod, revision string) bool {
	rec := f.recorded(t)
	if pod.Revision != revision || rec.Again != "" && rec.Again == pod.UID {
		return true
	}
	return !pod.Placeholder && f.uses(t.Target) && f.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver) &&
		slices.ContainsFunc(f.replaced(upgradeplan.TargetDriver), func(driver replaced) bool {
			return !driver.leaves() && driver.pod() != nil && pod.Created.Before(driver.Pod.Created)
		})
}
