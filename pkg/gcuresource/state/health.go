package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Health of the pods of one component. Nodes that are not Ready count only in Offline (contract
// section 2.10).
type Health struct {
	// Exists is false if none of its workloads exists yet.
	Exists bool
	// Terminating is true while one of its workloads is being deleted.
	Terminating bool
	// Observed is true if the controllers have observed the newest templates.
	Observed bool
	// Seen is true if they have observed any template: the component is not new.
	Seen bool
	// PerNode is true if it runs on nodes, false if it has replicas, which Kubernetes replaces on
	// its own.
	PerNode bool
	// Expected is the number of Ready nodes or replicas that should run a pod, Available of those
	// with an available pod, which offers cards if it should, Updated of those whose pod is also at
	// the newest revision.
	Expected, Available, Updated int
	// Outdated is the number of Ready nodes or replicas at an older revision.
	Outdated int
	// missing are the Ready nodes without an available pod, or the workloads that lack replicas,
	// each with the problem if known.
	missing []string
	// Absent are its other objects that are missing or being deleted.
	Absent []string
	// Offline nodes should run a pod and are not Ready.
	Offline []string
	// lacks are what Ready nodes lack before their cards can be used, each reason once.
	lacks []shortfall
	// Driverless are the Ready nodes without a loaded driver, if the component needs one and no gr
	// deploys it.
	Driverless []string
	// runtimeUnknown is true if a container that needs the enflame runtime is failing on a Ready
	// node whose default runtime is unknown.
	runtimeUnknown bool
	// target says why the newest revision is unknown; nil if it is known.
	target error
	// Failure says why it cannot run until someone acts; nil if it may.
	Failure *Failure
	// Wait is how long until a pod becomes available by time alone; 0 if there is none.
	Wait time.Duration
}

// ReplicasRun reports whether every expected pod is available.
func (h *Health) ReplicasRun() bool {
	return h.Exists && !h.Terminating && h.Observed && h.Available == h.Expected
}

// Running reports whether every pod on a Ready eligible node is available and offers the cards
// there, if it should (contract section 2.10), and no object of the component is missing.
func (h *Health) Running() bool { return h.ReplicasRun() && len(h.Absent) == 0 }

// LetsNextStart reports whether the next component may be created: this one runs, and has at
// least one node or replica. Right after the start of node-feature-discovery no node is labeled
// yet, so nothing proves that the driver works.
func (h *Health) LetsNextStart() bool {
	return h.Running() && h.Expected+len(h.Offline) > 0
}

// Message returns what the component waits for; "" if it runs everywhere it should.
func (h *Health) Message(c *component.Rendered) string {
	var parts []string
	if len(h.Driverless) > 0 && !h.Running() {
		parts = append(parts, DriverMissing(h.Driverless).Message)
	}
	switch {
	case !h.Exists:
		return ""
	case h.Terminating:
		return "waiting until the old " + c.Workloads()[0].Kind + " is deleted"
	case !h.PerNode && len(h.missing) > 0:
		parts = append(parts, "waiting for "+message.Names(h.missing))
	case !h.Observed:
		parts = append(parts, "waiting for the DaemonSet controller to observe the newest template")
	case len(h.missing) > 0:
		parts = append(parts, fmt.Sprintf("waiting for pods on %d of %d nodes: %s", len(h.missing), h.Expected, message.Names(h.missing)))
	case len(h.Absent) > 0:
		parts = append(parts, "waiting for "+message.Names(h.Absent))
	case h.Expected == 0 && len(h.Offline) == 0:
		parts = append(parts, "no node matches "+selectorText(c.PerNode.Spec.Template.Spec.NodeSelector)+", nothing to run")
	}
	for i := range h.lacks {
		parts = append(parts, h.lacks[i].String())
	}
	if h.runtimeUnknown {
		parts = append(parts, runtimeHint)
	}
	if len(h.Offline) > 0 {
		parts = append(parts, fmt.Sprintf("%s not Ready and not waited for: %s", message.Count(len(h.Offline), "node"), message.Names(h.Offline)))
	}
	return strings.Join(parts, "; ")
}

// shortfall is what nodes lack before their cards can be used.
type shortfall struct {
	why   string
	nodes []string
	// cards of these nodes of which none is allocatable; 0 if the component offers none.
	cards int
}

func (l *shortfall) String() string {
	if l.cards == 0 {
		return message.Names(l.nodes) + ": " + l.why
	}
	return fmt.Sprintf("%s on %s, none allocatable: %s: %s", message.Count(l.cards, "card"), message.Count(len(l.nodes), "node"), message.Names(l.nodes), l.why)
}

// runtimeHint names the usual cause when containers in the enflame runtime fail (contract
// statement 60) on a node whose agent does not report the default runtime.
const runtimeHint = "its containers need enflame as the default container runtime of the node: " +
	"restart docker or containerd there if that was not done since toolkit was deployed"

// stuckReasons are the waiting reasons of a container that do not resolve themselves.
var stuckReasons = []string{
	"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

// FailingContainer returns "container: reason" for the first failing container, "" if there is
// none.
func FailingContainer(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if w := statuses[i].State.Waiting; w != nil && slices.Contains(stuckReasons, w.Reason) {
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
