package state

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// assessNodes counts the Ready nodes that a component belongs on, by the state of its pods there.
func assessNodes(c *Component, nodes *NodeIndex, now time.Time) Health {
	ds := c.DaemonSet
	h := Health{
		Exists:      true,
		PerNode:     true,
		Terminating: ds.DeletionTimestamp != nil,
		Observed:    ds.Status.ObservedGeneration == ds.Generation,
		Seen:        ds.Status.ObservedGeneration > 0,
	}
	var target string
	target, h.target = daemonset.TargetRevision(ds, c.Revisions)
	byNode := nodes.podsByNode(ds, c.Pods)
	place := daemonset.Placing(ds)
	for i, node := range nodes.list {
		switch {
		case !place(node).Create:
		case !nodes.ready[i]:
			h.Offline = append(h.Offline, node.Name)
		default:
			h.count(ds, node.Name, byNode[i], target, now)
		}
	}
	return h
}

// count adds one Ready node with its pods.
func (h *Health) count(ds *appsv1.DaemonSet, node string, pods []*corev1.Pod, target string, now time.Time) {
	h.Expected++
	var available, updated, outdated bool
	var reason string
	for _, pod := range pods {
		ok, wait := daemonset.Availability(pod, ds.Spec.MinReadySeconds, now)
		h.Wait = Sooner(h.Wait, wait)
		current := h.target == nil && daemonset.RevisionHash(pod) == target
		available = available || ok
		updated = updated || (ok && current)
		outdated = outdated || (h.target == nil && !current)
		if !ok {
			reason = max(reason, FailingContainer(pod)) // independent of the order of the pods
		}
	}
	if outdated && !updated {
		h.Outdated++
	}
	if updated {
		h.Updated++
	}
	if available {
		h.Available++
		return
	}
	if reason != "" {
		h.crashing = true
		node += " (" + reason + ")"
	}
	h.missing = append(h.missing, node)
}
