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

// Health is how the pods of one component do. Nodes that are not Ready count
// nowhere but in Offline (contract section 2.10).
type Health struct {
	// Exists is false when none of its workloads is there yet.
	Exists bool
	// Terminating is true while one of its workloads is being deleted.
	Terminating bool
	// Observed is true when the newest templates were seen by their controllers.
	Observed bool
	// Seen is true when any template was: the component is not new.
	Seen bool
	// PerNode is true when it runs on nodes, false when it has replicas, which
	// Kubernetes replaces by itself.
	PerNode bool
	// Expected Ready nodes should run a pod, or replicas should; Available of them
	// have one that is available; Updated of them one that is also at the newest
	// revision.
	Expected, Available, Updated int
	// Outdated Ready nodes or replicas have a pod at an older revision.
	Outdated int
	// missing are the Ready nodes without an available pod, or the workloads
	// without all their replicas, each with what is wrong there if it is known.
	missing []string
	// Absent are its objects that are not there, or not for long, though its workloads are.
	Absent []string
	// Offline nodes should run a pod and are not Ready.
	Offline []string
	// crashing is true when the container of a pod on a Ready node is failing.
	crashing bool
	// target says why the newest revision is not known; nil when it is.
	target error
	// Failure says that it will not run before somebody does something; nil when it may.
	Failure *Failure
	// Wait is how long until a pod gets available by mere time; 0 when there is none.
	Wait time.Duration
}

// ReplicasRun reports whether every pod that should be available is.
func (h *Health) ReplicasRun() bool {
	return h.Exists && !h.Terminating && h.Observed && h.Available == h.Expected
}

// Running reports whether every pod on a Ready eligible node is available
// (contract section 2.10), and nothing of the component is missing.
func (h *Health) Running() bool { return h.ReplicasRun() && len(h.Absent) == 0 }

// LetsNextStart reports whether what comes after this component may be created: it
// runs, and somewhere. Right after node-feature-discovery started no node is
// labelled yet, and nothing proves that the driver works.
func (h *Health) LetsNextStart() bool {
	return h.Running() && h.Expected+len(h.Offline) > 0
}

// Message says what the component waits for; "" when it runs everywhere it should.
func (h *Health) Message(c *component.Rendered) string {
	var parts []string
	switch {
	case !h.Exists:
		return ""
	case h.Terminating:
		return "waiting until the old " + c.Workloads()[0].Kind + " is deleted"
	case !h.PerNode && len(h.missing) > 0:
		parts = append(parts, "waiting for "+message.Names(h.missing))
	case !h.Observed:
		parts = append(parts, "waiting for the DaemonSet controller to observe the newest template")
	case h.Available < h.Expected:
		parts = append(parts, fmt.Sprintf("waiting for pods on %d of %d nodes: %s", h.Expected-h.Available, h.Expected, message.Names(h.missing)))
	case len(h.Absent) > 0:
		parts = append(parts, "waiting for "+message.Names(h.Absent))
	case h.Expected == 0 && len(h.Offline) == 0:
		parts = append(parts, "no node matches "+selectorText(c.PerNode.Spec.Template.Spec.NodeSelector)+", nothing to run")
	}
	if h.crashing && slices.Contains(component.Find(c.Name).Needs, component.Toolkit) {
		parts = append(parts, runtimeHint)
	}
	if len(h.Offline) > 0 {
		parts = append(parts, fmt.Sprintf("%s not Ready and not waited for: %s", message.Count(len(h.Offline), "node"), message.Names(h.Offline)))
	}
	return strings.Join(parts, "; ")
}

// runtimeHint names the usual cause when what runs in the enflame runtime
// fails (contract statement 60). The API does not show a node's default runtime.
const runtimeHint = "its containers need enflame as the default container runtime of the node: " +
	"restart docker or containerd there if that was not done since toolkit was deployed"

// stuckReasons are the waiting reasons of a container that do not pass by themselves.
var stuckReasons = []string{
	"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

// FailingContainer returns "container: reason" for the first container that is failing, "" when none is.
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

// Sooner returns the shorter of two waits, of which 0 means none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
