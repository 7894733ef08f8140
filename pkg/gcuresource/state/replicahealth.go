package state

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// assessReplicas assesses the Deployments and Jobs of a component. A missing one counts as not
// seen.
func assessReplicas(c *Component) Health {
	h := Health{Exists: true, Observed: true, Seen: true}
	for _, ref := range c.Workloads() {
		switch ref.GroupVersionKind {
		case component.DeploymentKind:
			h.countDeployment(ref, c.Deployments[ref.Name], c.Pods)
		case component.JobKind:
			h.countJob(ref, c.Jobs[ref.Name], c.Pods)
		}
	}
	return h
}

// countDeployment adds one Deployment: it is done when all its replicas are available at the
// newest template and no older ones are left.
func (h *Health) countDeployment(ref component.Ref, d *appsv1.Deployment, pods []*corev1.Pod) {
	if d == nil {
		h.Expected, h.Observed, h.Seen = h.Expected+1, false, false
		return
	}
	status, want := &d.Status, int(ptr.Deref(d.Spec.Replicas, 1))
	observed := status.ObservedGeneration == d.Generation
	available := min(int(status.AvailableReplicas), want)
	outdated := int(status.Replicas - status.UpdatedReplicas)
	h.Terminating = h.Terminating || d.DeletionTimestamp != nil
	h.Observed = h.Observed && observed
	h.Seen = h.Seen && status.ObservedGeneration > 0
	h.Expected += want
	h.Available += available
	h.Outdated += outdated
	if observed { // an available replica may be outdated
		h.Updated += max(0, min(int(status.UpdatedReplicas), int(status.AvailableReplicas)-outdated, want))
	}
	if observed && available == want && outdated == 0 {
		return
	}
	state := fmt.Sprintf("%d of %d replicas available", available, want)
	if outdated > 0 {
		state = fmt.Sprintf("%d of %d replicas at the newest revision", max(0, want-outdated), want)
	}
	h.miss(ref, state, cmp.Or(failingPod(ref.Name, pods), deploymentProblem(d)))
}

// countJob adds one Job, which is done when it is complete.
func (h *Health) countJob(ref component.Ref, job *batchv1.Job, pods []*corev1.Pod) {
	h.Expected++
	if job == nil {
		h.Seen = false
		return
	}
	h.Terminating = h.Terminating || job.DeletionTimestamp != nil
	if IsComplete(job) {
		h.Available++
		h.Updated++
		return
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			h.Failure = &Failure{Reason: ReasonJobFailed,
				Message: fmt.Sprintf("%s failed: %s: fix the cause, then delete it, and the operator recreates it", ref, cmp.Or(c.Message, c.Reason))}
		}
	}
	h.miss(ref, "not complete", failingPod(ref.Name, pods))
}

// IsComplete reports whether a Job is complete.
func IsComplete(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// miss records that a workload is not done.
func (h *Health) miss(ref component.Ref, state, reason string) {
	if reason != "" {
		state += ", " + reason
	}
	h.missing = append(h.missing, fmt.Sprintf("%s (%s)", ref, state))
}

// failingPod returns the problem of the first failing pod of a workload.
func failingPod(workload string, pods []*corev1.Pod) string {
	for _, pod := range pods {
		if reason := FailingContainer(pod); reason != "" && pod.Labels[component.LabelName] == workload {
			return reason
		}
	}
	return ""
}

// deploymentProblem returns the problem that the Deployment itself reports.
func deploymentProblem(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			return c.Message
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse:
			return c.Reason
		}
	}
	return ""
}
