package gcuresource

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// assessReplicas looks at the Deployments and Jobs of a component. One that is
// not there yet counts as unseen.
func assessReplicas(c *Component) health {
	h := health{exists: true, observed: true, seen: true}
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

// countDeployment adds one Deployment: it is done when all its replicas are
// available and at the newest template, and none of another is left.
func (h *health) countDeployment(ref component.Ref, d *appsv1.Deployment, pods []*corev1.Pod) {
	if d == nil {
		h.expected, h.observed, h.seen = h.expected+1, false, false
		return
	}
	status, want := &d.Status, int(ptr.Deref(d.Spec.Replicas, 1))
	observed := status.ObservedGeneration == d.Generation
	available := min(int(status.AvailableReplicas), want)
	outdated := int(status.Replicas - status.UpdatedReplicas)
	h.terminating = h.terminating || d.DeletionTimestamp != nil
	h.observed = h.observed && observed
	h.seen = h.seen && status.ObservedGeneration > 0
	h.expected += want
	h.available += available
	h.outdated += outdated
	if observed { // an available one may be outdated
		h.updated += max(0, min(int(status.UpdatedReplicas), int(status.AvailableReplicas)-outdated, want))
	}
	if observed && available == want && outdated == 0 {
		return
	}
	state := fmt.Sprintf("%d of %d replicas available", available, want)
	if outdated > 0 {
		state = fmt.Sprintf("%d of %d replicas at the newest revision", max(0, want-outdated), want)
	}
	h.lack(ref, state, cmp.Or(troubleOf(ref.Name, pods), deploymentTrouble(d)))
}

// countJob adds one Job, which is done when it is complete.
func (h *health) countJob(ref component.Ref, job *batchv1.Job, pods []*corev1.Pod) {
	h.expected++
	if job == nil {
		h.seen = false
		return
	}
	h.terminating = h.terminating || job.DeletionTimestamp != nil
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			h.available++
			h.updated++
			return
		case c.Type == batchv1.JobFailed:
			h.failure = &Failure{Reason: ReasonJobFailed,
				Message: fmt.Sprintf("%s failed: %s: delete it when that is mended, then it is made again", ref, cmp.Or(c.Message, c.Reason))}
		}
	}
	h.lack(ref, "not complete", troubleOf(ref.Name, pods))
}

// lack notes that a workload is not done.
func (h *health) lack(ref component.Ref, state, trouble string) {
	if trouble != "" {
		state += ", " + trouble
	}
	h.missing = append(h.missing, fmt.Sprintf("%s (%s)", ref, state))
}

// troubleOf returns what is wrong with the first pod of a workload in trouble.
func troubleOf(workload string, pods []*corev1.Pod) string {
	for _, pod := range pods {
		if trouble := podTrouble(pod); trouble != "" && pod.Labels[component.LabelName] == workload {
			return trouble
		}
	}
	return ""
}

// deploymentTrouble returns what the Deployment itself says that is wrong.
func deploymentTrouble(d *appsv1.Deployment) string {
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
