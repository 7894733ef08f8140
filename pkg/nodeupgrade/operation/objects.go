package operation

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

// NodeOf returns the observed state of a Node that was read live, with its managed fields.
// accelerator reports whether a resource belongs to the accelerator. OtherUpgrader is left
// empty.
func NodeOf(node *corev1.Node, accelerator func(resource string) bool, seen *daemonset.StateTimes, now time.Time) Node {
	ready, since, _ := seen.NodeReady(node, now)
	n := Node{Name: node.Name, UID: node.UID, Cordon: cordon.FactsOf(node), Taint: TaintedFor(node), Ready: ready, Since: since}
	n.Offer(node, accelerator)
	return n
}

// Offer sets what a node offers of the resources of its accelerator.
func (n *Node) Offer(node *corev1.Node, accelerator func(resource string) bool) {
	n.Allocatable = nil
	for name, quantity := range node.Status.Allocatable {
		if !accelerator(string(name)) {
			continue
		}
		if n.Allocatable == nil {
			n.Allocatable = map[string]int64{}
		}
		n.Allocatable[string(name)] = quantity.Value()
	}
}

// HostSince returns when the report of the node agent, whose time is by the clock of the node, was
// first seen; zero without a report.
func HostSince(upgrade *topsv1.NodeUpgrade, seen *daemonset.StateTimes, now time.Time) time.Time {
	if upgrade.Status.Host == nil {
		return time.Time{}
	}
	return seen.Since("host "+string(upgrade.UID), upgrade.Status.Host.Time.Time, now)
}

// MemberOf returns the observed state of a component's DaemonSet on the node. newest is the
// hash of its newest revision, "" when not known. node is nil when it does not exist. pods are
// all pods of the node; those that the DaemonSet owns, by UID, count.
func MemberOf(component string, ds *appsv1.DaemonSet, newest string, node *corev1.Node, pods []*corev1.Pod, seen *daemonset.StateTimes, now time.Time) Member {
	m := Member{Component: component, DaemonSet: ds.Namespace + "/" + ds.Name, Newest: newest,
		UID: ds.UID, Leaving: daemonset.IsLeaving(ds), Shares: daemonset.SharesPerCard(&ds.Spec.Template.Spec), Uncontrolled: ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType}
	owned := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		owner := daemonset.Owner(pod)
		return owner == nil || owner.UID != ds.UID
	})
	if node != nil && !m.Leaving {
		m.NoSuccessor = daemonset.ShouldRun(ds, node).Why
	}
	if gr := daemonset.GcuResourceOwner(ds); gr != nil {
		m.Group = gr.Name
	}
	if pod := daemonset.PodOf(owned); pod != nil {
		m.Pod = podOf(pod, ds.Spec.MinReadySeconds, seen, now)
	}
	return m
}

func podOf(pod *corev1.Pod, minReadySeconds int32, seen *daemonset.StateTimes, now time.Time) *Pod {
	p := &Pod{
		NamedPod: topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			ResourceVersion: pod.ResourceVersion},
		Revision:    daemonset.RevisionHash(pod),
		Created:     pod.CreationTimestamp.Time,
		Terminating: pod.DeletionTimestamp != nil,
		Since:       seen.Since("change "+string(pod.UID), lastChange(pod).Time, now),
	}
	if pod.Status.StartTime != nil {
		p.Started = pod.Status.StartTime.Time
	}
	p.Available, _ = seen.Availability(pod, minReadySeconds, now)
	p.Placeholder, p.Gated = daemonset.IsPlaceholder(pod), daemonset.AwaitsUpgrade(pod)
	p.Available = p.Available || p.Placeholder && !p.Terminating
	_, p.CrashLooping = daemonset.CrashLooping(pod)
	p.Restarted = daemonset.HasRestarted(pod)
	p.TerminationMessage = daemonset.TerminationMessage(pod)
	return p
}

// lastChange returns when the pod was created, its readiness last changed, or a container
// started, whichever is latest.
func lastChange(pod *corev1.Pod) metav1.Time {
	last := pod.CreationTimestamp
	later := func(t metav1.Time) {
		if last.Before(&t) {
			last = t
		}
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i >= 0 {
		later(pod.Status.Conditions[i].LastTransitionTime)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			later(c.State.Running.StartedAt)
		}
	}
	return last
}
