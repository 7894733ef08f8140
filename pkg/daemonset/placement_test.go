package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	noSchedule       = corev1.TaintEffectNoSchedule
	noExecute        = corev1.TaintEffectNoExecute
	preferNoSchedule = corev1.TaintEffectPreferNoSchedule
)

var (
	stays   = Placement{Create: true, Keep: true}
	onlyOld = Placement{Keep: true}
	nowhere = Placement{}
)

func dsWith(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{}
	change(&ds.Spec.Template.Spec)
	return ds
}

func plain() *appsv1.DaemonSet { return dsWith(func(*corev1.PodSpec) {}) }

func tolerating(tolerations ...corev1.Toleration) *appsv1.DaemonSet {
	return dsWith(func(s *corev1.PodSpec) { s.Tolerations = tolerations })
}

// requiring returns a DaemonSet with a required node affinity of one term.
func requiring(term corev1.NodeSelectorTerm) *appsv1.DaemonSet {
	return dsWith(func(s *corev1.PodSpec) { s.Affinity = affinityOf(term) })
}

func affinityOf(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func expression(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func nodeField(values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: values}}}
}

func tainted(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"gcu": "true"}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func TestShouldRunBySelector(t *testing.T) {
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want Placement
	}{
		{"a DaemonSet that asks for nothing runs everywhere", plain(), stays},
		{"a node with the label of the node selector runs it",
			dsWith(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"gcu": "true"} }), stays},
		{"a node with another value of that label does not",
			dsWith(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"gcu": "false"} }), nowhere},
		{"a node that matches the required affinity runs it",
			requiring(expression("gcu", corev1.NodeSelectorOpExists)), stays},
		{"a node that does not match it does not",
			requiring(expression("gcu", corev1.NodeSelectorOpNotIn, "true")), nowhere},
		{"one matching term of several is enough", dsWith(func(s *corev1.PodSpec) {
			s.Affinity = affinityOf(expression("none", corev1.NodeSelectorOpExists), expression("gcu", corev1.NodeSelectorOpExists))
		}), stays},
		{"node selector and affinity both have to match", dsWith(func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{"gcu": "false"}
			s.Affinity = affinityOf(expression("gcu", corev1.NodeSelectorOpExists))
		}), nowhere},
		{"an affinity for the name of the node matches", requiring(nodeField("a")), stays},
		{"an affinity for another name does not", requiring(nodeField("b")), nowhere},
		{"a preferred affinity keeps no node out", dsWith(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 1, Preference: expression("none", corev1.NodeSelectorOpExists)}}}}
		}), stays},
		{"an affinity that cannot be parsed matches no node", requiring(expression("gcu", "Sometimes")), nowhere},
		{"a template bound to this node runs there", dsWith(func(s *corev1.PodSpec) { s.NodeName = "a" }), stays},
		{"a template bound to another node does not", dsWith(func(s *corev1.PodSpec) { s.NodeName = "b" }), nowhere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, placed(t, tt.ds, tainted())); diff != "" {
				t.Errorf("ShouldRun (-want +got):\n%s", diff)
			}
		})
	}
}

// placed returns where the DaemonSet runs. It says why where it creates no pod, and only there.
func placed(t *testing.T, ds *appsv1.DaemonSet, node *corev1.Node) Placement {
	t.Helper()
	got := ShouldRun(ds, node)
	if (got.Why == "") != got.Create {
		t.Errorf("%+v says why %q", got, got.Why)
	}
	got.Why = ""
	return got
}

func TestShouldRunByTaints(t *testing.T) {
	ours := corev1.Taint{Key: "team", Value: "ml", Effect: noSchedule}
	hostNetwork := dsWith(func(s *corev1.PodSpec) { s.HostNetwork = true })
	tests := []struct {
		name   string
		ds     *appsv1.DaemonSet
		taints []corev1.Taint
		want   Placement
	}{
		{"NoSchedule keeps new pods away and old ones in place", plain(), []corev1.Taint{ours}, onlyOld},
		{"NoExecute keeps no pod", plain(), []corev1.Taint{{Key: "team", Effect: noExecute}}, nowhere},
		{"PreferNoSchedule changes nothing", plain(), []corev1.Taint{{Key: "team", Effect: preferNoSchedule}}, stays},
		{"NoExecute counts behind a NoSchedule", plain(), []corev1.Taint{ours, {Key: "x", Effect: noExecute}}, nowhere},
		{"one tolerated taint does not excuse another", tolerating(corev1.Toleration{Key: "team", Operator: corev1.TolerationOpExists}),
			[]corev1.Taint{ours, {Key: "x", Effect: noSchedule}}, onlyOld},

		{"a toleration of the same key, value and effect", tolerating(corev1.Toleration{Key: "team", Value: "ml", Effect: noSchedule}),
			[]corev1.Taint{ours}, stays},
		{"a toleration without an effect tolerates every effect", tolerating(corev1.Toleration{Key: "team", Operator: corev1.TolerationOpEqual, Value: "ml"}),
			[]corev1.Taint{ours, {Key: "team", Value: "ml", Effect: noExecute}}, stays},
		{"a toleration of another value does not tolerate", tolerating(corev1.Toleration{Key: "team", Value: "web"}),
			[]corev1.Taint{ours}, onlyOld},
		{"a toleration of another effect does not tolerate", tolerating(corev1.Toleration{Key: "team", Value: "ml", Effect: noExecute}),
			[]corev1.Taint{ours}, onlyOld},
		{"a toleration of another key does not tolerate", tolerating(corev1.Toleration{Key: "crew", Value: "ml"}),
			[]corev1.Taint{ours}, onlyOld},
		{"Exists tolerates every value", tolerating(corev1.Toleration{Key: "team", Operator: corev1.TolerationOpExists}),
			[]corev1.Taint{ours}, stays},
		{"Exists without a key tolerates everything", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}),
			[]corev1.Taint{ours, {Key: "x", Effect: noExecute}}, stays},

		{"Lt tolerates a smaller number", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpLt, Value: "50"}),
			[]corev1.Taint{{Key: "load", Value: "49", Effect: noExecute}}, stays},
		{"Lt does not tolerate the same number", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpLt, Value: "50"}),
			[]corev1.Taint{{Key: "load", Value: "50", Effect: noExecute}}, nowhere},
		{"Gt tolerates a greater number, compared as numbers", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpGt, Value: "9"}),
			[]corev1.Taint{{Key: "load", Value: "10", Effect: noSchedule}}, stays},
		{"Gt does not tolerate the same number", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpGt, Value: "10"}),
			[]corev1.Taint{{Key: "load", Value: "10", Effect: noSchedule}}, onlyOld},
		{"Gt does not tolerate what is no number", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpGt, Value: "1"}),
			[]corev1.Taint{{Key: "load", Value: "high", Effect: noSchedule}}, onlyOld},
		{"Gt is for its own key", tolerating(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpGt, Value: "1"}),
			[]corev1.Taint{{Key: "heat", Value: "2", Effect: noSchedule}}, onlyOld},
		{"an operator that does not exist tolerates nothing", tolerating(corev1.Toleration{Key: "team", Operator: "Like", Value: "ml"}),
			[]corev1.Taint{ours}, onlyOld},

		{"a cordoned node runs it", plain(), []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: noSchedule}}, stays},
		{"a node under pressure runs it", plain(), []corev1.Taint{
			{Key: corev1.TaintNodeDiskPressure, Effect: noSchedule},
			{Key: corev1.TaintNodeMemoryPressure, Effect: noSchedule},
			{Key: corev1.TaintNodePIDPressure, Effect: noSchedule}}, stays},
		{"the implicit toleration of pressure is for NoSchedule only", plain(),
			[]corev1.Taint{{Key: corev1.TaintNodeDiskPressure, Effect: noExecute}}, nowhere},
		{"a node without network runs pods of the host network", hostNetwork,
			[]corev1.Taint{{Key: corev1.TaintNodeNetworkUnavailable, Effect: noSchedule}}, stays},
		{"a node without network gets no other pods", plain(),
			[]corev1.Taint{{Key: corev1.TaintNodeNetworkUnavailable, Effect: noSchedule}}, onlyOld},
		{"the host network does not excuse NoExecute", hostNetwork,
			[]corev1.Taint{{Key: corev1.TaintNodeNetworkUnavailable, Effect: noExecute}}, nowhere},

		{"an unreachable node still should run it", plain(), []corev1.Taint{
			{Key: corev1.TaintNodeUnreachable, Effect: noSchedule},
			{Key: corev1.TaintNodeUnreachable, Effect: noExecute}}, stays},
		{"a node that is not ready still should run it", plain(), []corev1.Taint{
			{Key: corev1.TaintNodeNotReady, Effect: noSchedule},
			{Key: corev1.TaintNodeNotReady, Effect: noExecute}}, stays},
		{"being offline does not excuse another taint", plain(), []corev1.Taint{
			{Key: corev1.TaintNodeUnreachable, Effect: noExecute}, ours}, onlyOld},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, placed(t, tt.ds, tainted(tt.taints...))); diff != "" {
				t.Errorf("ShouldRun (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeName(t *testing.T) {
	tests := []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"a bound pod belongs to its node", corev1.PodSpec{NodeName: "a"}, "a"},
		{"a bound pod belongs to its node whatever its affinity says", corev1.PodSpec{NodeName: "a", Affinity: affinityOf(nodeField("b"))}, "a"},
		{"a pod not yet bound belongs to the node its affinity names", corev1.PodSpec{Affinity: affinityOf(nodeField("b"))}, "b"},
		{"the name is found behind terms of the template",
			corev1.PodSpec{Affinity: affinityOf(expression("gcu", corev1.NodeSelectorOpExists), nodeField("b"))}, "b"},
		{"a label called metadata.name is not the node",
			corev1.PodSpec{Affinity: affinityOf(expression("metadata.name", corev1.NodeSelectorOpIn, "b"))}, ""},
		{"a choice of several nodes names none", corev1.PodSpec{Affinity: affinityOf(nodeField("b", "c"))}, ""},
		{"a node to avoid is not the node", corev1.PodSpec{Affinity: affinityOf(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}}})}, ""},
		{"no affinity names no node", corev1.PodSpec{}, ""},
		{"a pod affinity names no node", corev1.PodSpec{Affinity: &corev1.Affinity{}}, ""},
		{"a preference names no node", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NodeName(&corev1.Pod{Spec: tt.spec}); got != tt.want {
				t.Errorf("NodeName = %q, want %q", got, tt.want)
			}
		})
	}
}
