package state

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// assessNodes counts the Ready nodes that a component belongs on, by the state of its pods there,
// and of the cards that it offers.
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
	place, works := daemonset.Placing(ds), worksWith(c)
	for i, node := range nodes.list {
		switch {
		case !place(node).Create:
		case !nodes.ready[i]:
			h.Offline = append(h.Offline, node.Name)
		default:
			h.count(&works, node, nodes.host(i), h.podsOf(ds, byNode[i], target, now))
		}
	}
	return h
}

// nodePods is the state of the pods of a component on one node.
type nodePods struct {
	available, updated, outdated bool
	// failing is the problem of a container, "" if there is none.
	failing string
}

// podsOf returns the state of the pods on one node.
func (h *Health) podsOf(ds *appsv1.DaemonSet, pods []*corev1.Pod, target string, now time.Time) (p nodePods) {
	for _, pod := range pods {
		ok, wait := daemonset.Availability(pod, ds.Spec.MinReadySeconds, now)
		h.Wait = retry.Sooner(h.Wait, wait)
		current := h.target == nil && daemonset.RevisionHash(pod) == target
		p.available = p.available || ok
		p.updated = p.updated || (ok && current)
		p.outdated = p.outdated || (h.target == nil && !current)
		if !ok {
			p.failing = max(p.failing, FailingContainer(pod)) // independent of the order of the pods
		}
	}
	return p
}

// needs is what a component needs on a node, and what it offers there.
type needs struct {
	driver, runtime bool
	offers          []corev1.ResourceName
}

func worksWith(c *Component) needs {
	list := component.Find(c.Name).Needs
	return needs{slices.Contains(list, component.Driver), slices.Contains(list, component.Toolkit), c.Offers()}
}

// count adds one Ready node. A pod that offers none of the node's cards does not count as
// available (contract section 2.10); without a report of the node agent, it does.
func (h *Health) count(of *needs, node *corev1.Node, host *Host, pods nodePods) {
	h.Expected++
	if of.driver && host.Known && host.Driver == "" {
		h.Driverless = append(h.Driverless, node.Name)
	}
	if pods.outdated && !pods.updated {
		h.Outdated++
	}
	unoffered := 0
	if of.offers != nil && !offersAny(node, of.offers) {
		unoffered = host.Cards
	}
	if !pods.available {
		h.missOn(of, node.Name, host, pods.failing, unoffered)
		return
	}
	if unoffered > 0 {
		h.lack(node.Name, unoffered, cmp.Or(host.restartText(), "the pod there is available and does not offer them: see its log"))
		return
	}
	h.Available++
	if pods.updated {
		h.Updated++
	}
}

// missOn records a Ready node without an available pod.
func (h *Health) missOn(of *needs, node string, host *Host, failing string, unoffered int) {
	if failing == "" {
		h.missing = append(h.missing, node)
		return
	}
	h.missing = append(h.missing, node+" ("+failing+")")
	switch {
	case !of.runtime || host.Runtime == topsv1.DefaultRuntime:
	case host.NeedsRestart:
		h.lack(node, unoffered, host.restartText())
	default:
		h.runtimeUnknown = true
	}
}

// lack records what a Ready node lacks.
func (h *Health) lack(node string, cards int, why string) {
	i := slices.IndexFunc(h.lacks, func(l shortfall) bool { return l.why == why })
	if i < 0 {
		i, h.lacks = len(h.lacks), append(h.lacks, shortfall{why: why})
	}
	l := &h.lacks[i]
	l.nodes, l.cards = append(l.nodes, node), l.cards+cards
}

// offersAny reports whether a node has at least one of some resources.
func offersAny(node *corev1.Node, resources []corev1.ResourceName) bool {
	for _, name := range resources {
		if q := node.Status.Allocatable[name]; q.Value() > 0 {
			return true
		}
	}
	return false
}
