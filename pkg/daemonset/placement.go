package daemonset

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr" //nolint:depguard // a logger that discards, for a library that wants one
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// implicitTolerations are added by the DaemonSet controller to every pod it
// creates, so their taints never keep a DaemonSet off a node.
var implicitTolerations = map[string]corev1.TaintEffect{
	corev1.TaintNodeDiskPressure:   corev1.TaintEffectNoSchedule,
	corev1.TaintNodeMemoryPressure: corev1.TaintEffectNoSchedule,
	corev1.TaintNodePIDPressure:    corev1.TaintEffectNoSchedule,
	corev1.TaintNodeUnschedulable:  corev1.TaintEffectNoSchedule,
}

// ImplicitTolerations returns the tolerations that the DaemonSet controller adds to a pod with a spec.
func ImplicitTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	list := []corev1.Toleration{exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}
	for _, key := range slices.Sorted(maps.Keys(implicitTolerations)) {
		list = append(list, exists(key, implicitTolerations[key]))
	}
	if spec.HostNetwork {
		list = append(list, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return list
}

// Placement is what the DaemonSet controller does with a DaemonSet on a node.
type Placement struct {
	// Create is true if it creates a missing pod there.
	Create bool
	// Keep is true if it keeps an existing pod there.
	Keep bool
	// Why says why Create is false, "" otherwise.
	Why string
}

// passing are the taints of a node that is offline or whose driver is being replaced (ADR
// 0009). They do not change what should run there.
var passing = map[string]bool{corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, topsv1.TaintDriverUpgrade: true}

// ShouldRun reports where a DaemonSet's pods belong: by node selector, required node
// affinity, node name, and taints. An offline node should still run the DaemonSet, and so
// should one whose driver is being replaced, although the DaemonSet controller creates a
// missing pod there only afterwards. An affinity that cannot be parsed matches no node (the
// API server rejects such templates).
func ShouldRun(ds *appsv1.DaemonSet, node *corev1.Node) Placement { return Placing(ds)(node) }

// Placing is ShouldRun for many nodes: it parses the DaemonSet's selectors once. The
// DaemonSet must not change while the function is used.
func Placing(ds *appsv1.DaemonSet) func(*corev1.Node) Placement {
	spec := &ds.Spec.Template.Spec
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec})
	return func(node *corev1.Node) Placement {
		if spec.NodeName != "" && spec.NodeName != node.Name {
			return Placement{Why: "the DaemonSet names another node"}
		}
		if fits, err := affinity.Match(node); err != nil || !fits {
			return Placement{Why: "the node does not match the node selector or affinity of the DaemonSet"}
		}
		return byTaints(spec, node)
	}
}

// byTaints returns what the taints of a node allow.
func byTaints(spec *corev1.PodSpec, node *corev1.Node) Placement {
	p := Placement{Create: true, Keep: true}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if tolerated(spec, taint) {
			continue
		}
		switch taint.Effect {
		case corev1.TaintEffectNoExecute:
			return Placement{Why: untoleratedTaint(taint)}
		case corev1.TaintEffectNoSchedule:
			p.Create, p.Why = false, untoleratedTaint(taint)
		}
	}
	return p
}

// untoleratedTaint returns why a node gets no pod: it has a taint that the DaemonSet does not tolerate.
func untoleratedTaint(taint *corev1.Taint) string {
	return fmt.Sprintf("the node has taint %s, which the DaemonSet does not tolerate", taint.ToString())
}

func tolerated(spec *corev1.PodSpec, taint *corev1.Taint) bool {
	if passing[taint.Key] || (implicitTolerations[taint.Key] == taint.Effect && taint.Effect != "") {
		return true
	}
	if spec.HostNetwork && taint.Key == corev1.TaintNodeNetworkUnavailable && taint.Effect == corev1.TaintEffectNoSchedule {
		return true
	}
	return toleratesItself(spec, taint)
}

// toleratesItself reports whether a tolerance for a taint is written in a pod's spec.
func toleratesItself(spec *corev1.PodSpec, taint *corev1.Taint) bool {
	return slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), taint, true) })
}

// ToleratesCordon reports whether the scheduler binds a pod to a node that is cordoned. The pods of a DaemonSet
// tolerate it whatever their spec says.
func ToleratesCordon(spec *corev1.PodSpec) bool {
	return toleratesItself(spec, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

// ToleratesClosing reports whether pods of a DaemonSet are created on a node although its device is
// closed for an operation (ADR 0009).
func ToleratesClosing(ds *appsv1.DaemonSet) bool {
	return toleratesItself(&ds.Spec.Template.Spec, &corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "operation", Effect: corev1.TaintEffectNoSchedule})
}

// NodeChanged reports whether an update of a node can change where pods belong or
// whether the node counts: readiness, labels, taints, or another Node object or machine.
func NodeChanged(before, after *corev1.Node) bool {
	wasReady, _ := NodeReady(before)
	isReady, _ := NodeReady(after)
	return wasReady != isReady || before.UID != after.UID || before.Status.NodeInfo.MachineID != after.Status.NodeInfo.MachineID ||
		!maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}

// NodeName returns the node a DaemonSet pod belongs to, bound or not: the DaemonSet
// controller names it in a required node affinity on metadata.name before the scheduler
// binds the pod. It returns "" if there is neither.
func NodeName(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
