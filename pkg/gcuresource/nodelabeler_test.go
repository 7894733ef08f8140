package gcuresource

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// counts stores how many cards the agent of a node counts, nil for none.
func (s *scene) counts(t *testing.T, node string, cards *int32) {
	t.Helper()
	upgrade := &topsv1.NodeUpgrade{}
	err := s.api.Get(context.Background(), client.ObjectKey{Name: node}, upgrade)
	if err != nil {
		upgrade = &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := s.api.Create(context.Background(), upgrade); err != nil {
			t.Fatal(err)
		}
	}
	before := upgrade.DeepCopy()
	upgrade.Status.Host = &topsv1.HostReport{Time: metav1.NewTime(s.now), Devices: cards}
	if err := s.api.Status().Patch(context.Background(), upgrade, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// changeNode changes a node as somebody else does.
func (s *scene) changeNode(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	node := &corev1.Node{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	before := node.DeepCopy()
	change(node)
	if err := s.api.Patch(context.Background(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// losesDevice is what nfd does when the cards of a node are not on its bus.
func losesDevice(node *corev1.Node) {
	delete(node.Labels, "feature.node.kubernetes.io/pci-1e36.present")
	node.Labels["feature.node.kubernetes.io/cpu-cpuid.AVX"] = "true"
}

// isLabeled reports whether a node has the GCU label after a pass over it.
func (s *scene) isLabeled(t *testing.T, name string) bool {
	t.Helper()
	if err := s.label(); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node.Labels[topsv1.LabelGcuPresent] == "true"
}

func TestANodeThatItsAgentCountsCardsOfKeepsItsPods(t *testing.T) {
	s := inMemory(t)
	if err := (story{"", []func(*scene) error{deployAll}}).play(s); err != nil {
		t.Fatal(err)
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	for _, node := range sceneNodes {
		s.counts(t, node, ptr.To[int32](8))
		s.changeNode(t, node, losesDevice)
	}
	if !s.isLabeled(t, "node-1") || !s.isLabeled(t, "node-2") {
		t.Fatal("nfd that finds no device takes the GCU pods from nodes whose agents count cards")
	}
	if err := s.api.Create(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "another"}}); err != nil {
		t.Fatal(err)
	}
	if err := deleteHero(s); err != nil {
		t.Fatal(err)
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	if !s.isLabeled(t, "node-1") {
		t.Error("the deletion of a gr takes the GCU pods of another one from such a node")
	}
	s.counts(t, "node-1", ptr.To[int32](0))
	s.counts(t, "node-2", nil)
	if s.isLabeled(t, "node-1") || s.isLabeled(t, "node-2") {
		t.Error("a node without cards keeps the label")
	}
}

func TestWhatTheLabelsOfANodeFollowFromIsWatched(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}}}
		change(n)
		return n
	}
	quiet := node(func(*corev1.Node) {})
	for name, tc := range map[string]struct {
		after *corev1.Node
		want  bool
	}{
		"another annotation":   {node(func(n *corev1.Node) { n.Annotations["a"] = "c" }), false},
		"the mark of a cordon": {node(func(n *corev1.Node) { n.Annotations[topsv1.AnnotationCordonedBy] = "op" }), true},
		"the taint of an operation": {node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: topsv1.TaintDriverUpgrade, Value: "op", Effect: corev1.TaintEffectNoSchedule}}
		}), true},
		"a label": {node(func(n *corev1.Node) { n.Labels["a"] = "c" }), true},
	} {
		if got := labelsChanged(event.UpdateEvent{ObjectOld: quiet, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
		if got := labelsChanged(event.UpdateEvent{ObjectOld: tc.after, ObjectNew: quiet}); got != tc.want {
			t.Errorf("%s that goes: %t, want %t", name, got, tc.want)
		}
	}
	reported := func(cards *int32) *topsv1.NodeUpgrade {
		return &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{Host: &topsv1.HostReport{Devices: cards}}}
	}
	for name, tc := range map[string]struct {
		before, after *topsv1.NodeUpgrade
		want          bool
	}{
		"no card is left":        {reported(ptr.To[int32](8)), reported(ptr.To[int32](0)), true},
		"they cannot be counted": {reported(ptr.To[int32](8)), reported(nil), true},
		"fewer cards":            {reported(ptr.To[int32](8)), reported(ptr.To[int32](7)), false},
		"the first report":       {&topsv1.NodeUpgrade{}, reported(ptr.To[int32](8)), true},
	} {
		if got := countChanged(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
