package gcuresource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
)

// health is how the pods of one component do. Nodes that are not Ready count
// nowhere but in offline (contract section 2.10).
type health struct {
	// exists is false when none of its workloads is there yet.
	exists bool
	// terminating is true while one of its workloads is being deleted.
	terminating bool
	// observed is true when the newest templates were seen by their controllers.
	observed bool
	// seen is true when any template was: the component is not new.
	seen bool
	// perNode is true when it runs on nodes, false when it has replicas, which
	// Kubernetes replaces by itself.
	perNode bool
	// expected Ready nodes should run a pod, or replicas should; available of them
	// have one that is available; updated of them one that is also at the newest
	// revision.
	expected, available, updated int
	// outdated Ready nodes or replicas have a pod at an older revision.
	outdated int
	// missing are the Ready nodes without an available pod, or the workloads
	// without all their replicas, each with what is wrong there if it is known.
	missing []string
	// absent are its objects that are not there, or not for long, though its workloads are.
	absent []string
	// offline nodes should run a pod and are not Ready.
	offline []string
	// crashing is true when the container of a pod on a Ready node is in trouble.
	crashing bool
	// target says why the newest revision is not known; nil when it is.
	target error
	// failure says that it will not run before somebody does something; nil when it may.
	failure *Failure
	// wait is how long until a pod gets available by mere time; 0 when there is none.
	wait time.Duration
}

// replicasRun: every pod that should be available is.
func (h *health) replicasRun() bool {
	return h.exists && !h.terminating && h.observed && h.available == h.expected
}

// running: every pod on a Ready eligible node is available (contract section
// 2.10), and nothing of the component is missing.
func (h *health) running() bool { return h.replicasRun() && len(h.absent) == 0 }

// opens is the gate for the creation of what comes after this component: it
// runs, and somewhere. Right after node-feature-discovery started no node is
// labelled yet, and nothing proves that the driver works.
func (h *health) opens() bool {
	return h.running() && h.expected+len(h.offline) > 0
}

// assess looks at the pods of a component on nodes that carry the labels they
// are to have (see labelled). now decides minReadySeconds.
func (o *Observation) assess(c *Component, nodes *roster, now time.Time) health {
	if !c.exists() {
		return health{perNode: c.PerNode != nil}
	}
	h := assessReplicas(c)
	if c.PerNode != nil {
		h = o.assessNodes(c, nodes, now)
	}
	for i := range c.Objects {
		ref := c.Objects[i].Ref
		switch live := c.Live[ref]; {
		case ref.Shared() || ref.Workload() && live != nil:
		case live == nil:
			h.absent = append(h.absent, ref.String())
		case live.DeletionTimestamp != nil:
			h.absent = append(h.absent, ref.String()+" (being deleted, made again when it is gone)")
		}
	}
	return h
}

func assessNodes(c *Component, nodes *roster, now time.Time) health {
	ds := c.DaemonSet
	h := health{
		exists:      true,
		perNode:     true,
		terminating: ds.DeletionTimestamp != nil,
		observed:    ds.Status.ObservedGeneration == ds.Generation,
		seen:        ds.Status.ObservedGeneration > 0,
	}
	var target string
	target, h.target = daemonset.TargetRevision(ds, c.Revisions)
	byNode := nodes.sort(ds, c.Pods)
	place := daemonset.Placing(ds)
	for i, node := range nodes.list {
		switch {
		case !place(node).Create:
		case !nodes.ready[i]:
			h.offline = append(h.offline, node.Name)
		default:
			h.count(ds, node.Name, byNode[i], target, now)
		}
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
			trouble = max(trouble, podTrouble(pod)) // whatever the order of the pods
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
	h.crashing = h.crashing || trouble != ""
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

// message says what the component waits for; "" when it runs everywhere it should.
func (h *health) message(c *Component) string {
	var parts []string
	switch {
	case !h.exists:
		return ""
	case h.terminating:
		return "waiting until the old " + c.Workloads()[0].Kind + " is deleted"
	case !h.perNode && len(h.missing) > 0:
		parts = append(parts, "waiting for "+message.Names(h.missing))
	case !h.observed:
		parts = append(parts, "waiting for the DaemonSet controller to observe the newest template")
	case h.available < h.expected:
		parts = append(parts, fmt.Sprintf("waiting for pods on %d of %d nodes: %s", h.expected-h.available, h.expected, message.Names(h.missing)))
	case len(h.absent) > 0:
		parts = append(parts, "waiting for "+message.Names(h.absent))
	case h.expected == 0 && len(h.offline) == 0:
		parts = append(parts, "no node matches "+selectorText(c.PerNode.Spec.Template.Spec.NodeSelector)+", nothing to run")
	}
	if h.crashing && slices.Contains(component.Find(c.Name).Needs, component.Toolkit) {
		parts = append(parts, runtimeHint)
	}
	if len(h.offline) > 0 {
		parts = append(parts, fmt.Sprintf("%s not Ready and not waited for: %s", message.Count(len(h.offline), "node"), message.Names(h.offline)))
	}
	return strings.Join(parts, "; ")
}

// runtimeHint names the usual cause when what runs in the enflame runtime
// fails (contract statement 60). The API does not show a node's default runtime.
const runtimeHint = "its containers need enflame as the default container runtime of the node: " +
	"restart docker or containerd there if that was not done since toolkit was deployed"

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
