package gcuresource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/message"
)

// health is how the pods of one component do. Nodes that are not Ready count
// nowhere but in offline (contract section 2.10).
type health struct {
	// exists is false when the component has no DaemonSet yet.
	exists bool
	// terminating is true while its DaemonSet is being deleted.
	terminating bool
	// observed is true when the DaemonSet controller has seen the newest template.
	observed bool
	// seen is true when it has seen any template: the DaemonSet is not new.
	seen bool
	// expected Ready nodes should run a pod; available of them have one that is
	// available; updated of them one that is also at the newest revision.
	expected, available, updated int
	// outdated Ready nodes have a pod at an older revision.
	outdated int
	// missing are the Ready nodes without an available pod, each with what is
	// wrong there if it is known.
	missing []string
	// offline nodes should run a pod and are not Ready.
	offline []string
	// target says why the newest revision is not known; nil when it is.
	target error
	// wait is how long until a pod gets available by mere time; 0 when there is none.
	wait time.Duration
}

// running: every pod on a Ready eligible node is available (contract section 2.10).
func (h *health) running() bool {
	return h.exists && !h.terminating && h.observed && h.available == h.expected
}

// opens is the gate for the creation of what comes after this component: it
// runs, and somewhere. Right after node-feature-discovery started no node is
// labelled yet, and nothing proves that the driver works.
func (h *health) opens() bool {
	return h.running() && h.expected+len(h.offline) > 0
}

// assess looks at the pods of a component on nodes that carry the labels they
// are to have (see labelled). now decides minReadySeconds.
func assess(c *Component, nodes []*corev1.Node, now time.Time) health {
	ds := c.DaemonSet
	if ds == nil {
		return health{}
	}
	h := health{
		exists:      true,
		terminating: ds.DeletionTimestamp != nil,
		observed:    ds.Status.ObservedGeneration == ds.Generation,
		seen:        ds.Status.ObservedGeneration > 0,
	}
	var target string
	target, h.target = daemonset.TargetRevision(ds, c.Revisions)
	byNode := podsByNode(ds, c.Pods)
	for _, node := range nodes {
		if !daemonset.ShouldRun(ds, node).Create {
			continue
		}
		if ready, _ := daemonset.NodeReady(node); !ready {
			h.offline = append(h.offline, node.Name)
			continue
		}
		h.count(ds, node.Name, byNode[node.Name], target, now)
	}
	return h
}

// count adds one Ready node with its pods.
func (h *health) count(ds *appsv1.DaemonSet, node string, pods []*corev1.Pod, target string, now time.Time) {
	h.expected++
	var available, updated, outdated bool
	var trouble string
	for _, pod := range pods {
		ok, wait := daemonset.Availability(pod, ds.Spec.MinReadySeconds, now)
		h.wait = sooner(h.wait, wait)
		current := h.target == nil && daemonset.RevisionHash(pod) == target
		available = available || ok
		updated = updated || (ok && current)
		outdated = outdated || (h.target == nil && !current)
		if !ok {
			trouble = or(trouble, podTrouble(pod))
		}
	}
	if outdated && !updated {
		h.outdated++
	}
	if updated {
		h.updated++
	}
	if available {
		h.available++
		return
	}
	h.missing = append(h.missing, inTrouble(node, trouble))
}

// inTrouble is the name of a node with what is wrong there, if that is known.
func inTrouble(node, trouble string) string {
	if trouble == "" {
		return node
	}
	return node + " (" + trouble + ")"
}

// sooner returns the shorter of two waits, of which 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// message says what the component waits for; "" when it runs on every node it should.
func (h *health) message(selector map[string]string) string {
	var parts []string
	switch {
	case !h.exists:
		return ""
	case h.terminating:
		return "waiting until the old DaemonSet is deleted"
	case !h.observed:
		parts = append(parts, "waiting for the DaemonSet controller to observe the newest template")
	case h.available < h.expected:
		parts = append(parts, fmt.Sprintf("waiting for pods on %d of %d nodes: %s", h.expected-h.available, h.expected, message.Names(h.missing)))
	case h.expected == 0 && len(h.offline) == 0:
		parts = append(parts, "no node matches "+selectorText(selector)+", nothing to run")
	}
	if len(h.offline) > 0 {
		parts = append(parts, fmt.Sprintf("%s not Ready and not waited for: %s", message.Count(len(h.offline), "node"), message.Names(h.offline)))
	}
	return strings.Join(parts, "; ")
}

// podsByNode returns the pods of a DaemonSet by the node they belong to.
func podsByNode(ds *appsv1.DaemonSet, pods []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if owner := daemonset.Owner(pod); owner != nil && owner.UID == ds.UID {
			node := daemonset.NodeName(pod)
			byNode[node] = append(byNode[node], pod)
		}
	}
	return byNode
}

// troubles are the waiting reasons of a container that do not pass by
// themselves.
var troubles = []string{
	"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

// podTrouble returns "container: reason" for the first container in trouble, "" when none is.
func podTrouble(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if w := statuses[i].State.Waiting; w != nil && slices.Contains(troubles, w.Reason) {
				return statuses[i].Name + ": " + w.Reason
			}
		}
	}
	return ""
}

func selectorText(selector map[string]string) string {
	if len(selector) == 0 {
		return "the component's tolerations"
	}
	var terms []string
	for k, v := range selector {
		terms = append(terms, k+"="+v)
	}
	slices.Sort(terms)
	return "node selector " + strings.Join(terms, ",")
}
