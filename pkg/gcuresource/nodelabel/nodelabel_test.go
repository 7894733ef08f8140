package nodelabel

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// grs returns n grs with an empty spec, of which the first are being deleted, as many as deleting
// says.
func grs(n, deleting int) []topsv1.GcuResource {
	list := make([]topsv1.GcuResource, n)
	for i := range list {
		if i < deleting {
			list[i].DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
		}
	}
	return list
}

func TestNodeLabels(t *testing.T) {
	const device = "feature.node.kubernetes.io/pci-1200_1e36.present"
	const cpu = "feature.node.kubernetes.io/cpu-cpuid.AVX"
	ours := map[string]string{topsv1.AnnotationOwnedLabels: topsv1.LabelGcuPresent}
	none, going, staying := grs(0, 0), grs(2, 2), grs(2, 1)
	for _, tc := range []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		grs         []topsv1.GcuResource
		want        change
	}{
		{"contract 54: a node with a device is labeled", map[string]string{device: "true"}, nil, staying, set},
		{"a node without a device is not", map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"}, nil, staying, keep},
		{"a device label that is not true does not count", map[string]string{device: "false"}, nil, staying, keep},
		{"no node is labeled without a gr", map[string]string{device: "true"}, nil, none, keep},
		{"nor while every gr is being deleted", map[string]string{device: "true"}, nil, going, keep},
		{"a label that is there is left alone", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, nil, staying, keep},
		{"also when it says false", map[string]string{device: "true", topsv1.LabelGcuPresent: "false"}, nil, staying, keep},
		{"a foreign label stays when the last gr goes", map[string]string{topsv1.LabelGcuPresent: "true"}, nil, none, keep},
		{"ours goes with the device", map[string]string{topsv1.LabelGcuPresent: "true", cpu: "true"}, ours, grs(1, 0), remove},
		{"but stays when no feature of the node is reported", map[string]string{topsv1.LabelGcuPresent: "true"}, ours, grs(1, 0), keep},
		{"unless no gr is left", map[string]string{topsv1.LabelGcuPresent: "true"}, ours, none, remove},
		{"ours goes with the last gr", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, ours, none, remove},
		{"ours stays while the last gr is torn down", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, ours, going, keep},
		{"ours that somebody took comes back", map[string]string{device: "true"}, ours, staying, set},
		{"ours that somebody gave another value is his", map[string]string{device: "true", topsv1.LabelGcuPresent: "no"}, ours, staying, disown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}
			if got := decide(node, topsv1.LabelGcuPresent, wantedBy(Inputs{Resources: tc.grs}, node, topsv1.LabelGcuPresent)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// What takes the cards off the bus of a node that is upgraded is a failure, not a node that leaves.
func TestTheGCULabelStaysWhileTheNodeIsUpgradedOrItsAgentCountsCards(t *testing.T) {
	cordoned := func(node *corev1.Node) { node.Annotations[topsv1.AnnotationCordonedBy] = "op" }
	tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: topsv1.TaintDriverUpgrade, Value: "op", Effect: effect}}
		}
	}
	for _, tc := range []struct {
		name    string
		given   func(*corev1.Node)
		grs     []topsv1.GcuResource
		counted map[string]bool
		want    bool
	}{
		{"an operation cordoned it", cordoned, grs(1, 0), nil, true},
		{"an operation closed its devices", tainted(corev1.TaintEffectNoSchedule), grs(1, 0), nil, true},
		{"a taint that is not ours", tainted(corev1.TaintEffectNoExecute), grs(1, 0), nil, false},
		{"its agent counts cards", func(*corev1.Node) {}, grs(1, 0), map[string]bool{"node-1": true}, true},
		{"the agent of another node does", func(*corev1.Node) {}, grs(1, 0), map[string]bool{"node-2": true}, false},
		{"a person cordoned it", func(node *corev1.Node) { node.Spec.Unschedulable = true }, grs(1, 0), nil, false},
		{"cordoned, but no gr is left", cordoned, nil, map[string]bool{"node-1": true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{
				topsv1.LabelGcuPresent: "true", "feature.node.kubernetes.io/cpu-cpuid.AVX": "true"},
				Annotations: map[string]string{topsv1.AnnotationOwnedLabels: topsv1.LabelGcuPresent}}}
			tc.given(node)
			claims := Inputs{Resources: tc.grs, CountsCards: tc.counted}
			after := Relabeled(node, claims)
			if got := after.Labels[topsv1.LabelGcuPresent] == "true"; got != tc.want {
				t.Errorf("the label is there: %t, want %t", got, tc.want)
			}
			delete(node.Labels, topsv1.LabelGcuPresent)
			if after := Relabeled(node, claims); after.Labels[topsv1.LabelGcuPresent] != "" {
				t.Error("a node that lost the label gets it without a device")
			}
		})
	}
}

func TestContractNodesWhoseCardsAreShared(t *testing.T) {
	sharing := func(deleting, off bool, nodes ...string) topsv1.GcuResource {
		gr := grs(1, 0)[0]
		if deleting {
			gr = grs(1, 1)[0]
		}
		gr.Spec.GcusharePlugin = &topsv1.GcusharePluginSpec{BaseFields: topsv1.BaseFields{NotDeploy: off}, GcushareNodes: nodes}
		return gr
	}
	for _, tc := range []struct {
		name string
		grs  []topsv1.GcuResource
		want []string
	}{
		{"contract 28: the nodes it names", []topsv1.GcuResource{sharing(false, false, "node-2", "gone")}, []string{"node-2"}},
		{"contract 28: all GCU nodes when it names none", []topsv1.GcuResource{sharing(false, false)}, []string{"node-1", "node-2", "node-3"}},
		{"contract 28: those of two grs together", []topsv1.GcuResource{sharing(false, false, "node-1"), sharing(false, false, "node-3")}, []string{"node-1", "node-3"}},
		{"contract 28: none without gcusharePlugin", grs(1, 0), nil},
		{"contract 28: none with notDeploy: true", []topsv1.GcuResource{sharing(false, true, "node-1")}, nil},
		{"contract 28: none while the gr is being deleted", []topsv1.GcuResource{sharing(true, false)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, node := range []*corev1.Node{gcuNode("node-1"), gcuNode("node-2"), gcuNode("node-3"), {ObjectMeta: metav1.ObjectMeta{Name: "cpu"}}} {
				if Relabeled(node, Inputs{Resources: tc.grs}).Labels[topsv1.LabelGcushare] == "true" {
					got = append(got, node.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labeled nodes (-want +got):\n%s", diff)
			}
		})
	}
	node := Relabeled(gcuNode("node-1"), Inputs{Resources: []topsv1.GcuResource{sharing(false, false)}})
	if same := Relabeled(node, Inputs{Resources: []topsv1.GcuResource{sharing(true, false)}}); same != node {
		t.Errorf("contract 52: a label its pods still need goes: %v", same.Labels)
	}
	if after := Relabeled(node, Inputs{Resources: grs(1, 0)}); after.Labels[topsv1.LabelGcushare] != "" || after.Annotations[topsv1.AnnotationOwnedLabels] != "" {
		t.Errorf("contract 28: our label stays when the plugin goes: %v %v", after.Labels, after.Annotations)
	}
}

func TestALabelStaysWhileTheComponentThatNeedsItLeavesNodeByNode(t *testing.T) {
	shares := topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}}}
	removed := topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	elsewhere := topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: topsv1.GcuResourceSpec{
		GcusharePlugin: &topsv1.GcusharePluginSpec{GcushareNodes: []string{"node-2"}}}}
	claims := func(gr topsv1.GcuResource, leaves types.UID) Inputs {
		return Inputs{Resources: []topsv1.GcuResource{gr}, Leaving: map[types.UID]bool{leaves: true}}
	}
	node := Relabeled(gcuNode("node-1"), claims(shares, ""))
	for _, tc := range []struct {
		name   string
		node   *corev1.Node
		claims Inputs
		want   bool
	}{
		{"while its DaemonSet is there", node, claims(removed, "a"), true},
		{"not when it has left", node, claims(removed, ""), false},
		{"not for that of another gr, which is gone", node, claims(removed, "b"), false},
		{"not on a node that the spec leaves out", node, claims(elsewhere, "a"), false},
		{"and no node gets it", gcuNode("node-1"), claims(removed, "a"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Relabeled(tc.node, tc.claims).Labels[topsv1.LabelGcushare] == "true"; got != tc.want {
				t.Errorf("the label is there: %t, want %t", got, tc.want)
			}
		})
	}
}

// Which nodes an unread gr shares is not known, that it wants the GCU label is.
func TestAGrWhoseSpecIsUnknownKeepsLabels(t *testing.T) {
	sharing := topsv1.GcuResource{Spec: topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}}}
	labeled := Relabeled(gcuNode("node-1"), Inputs{Resources: []topsv1.GcuResource{sharing}})
	unknown := Inputs{Resources: []topsv1.GcuResource{{ObjectMeta: metav1.ObjectMeta{UID: "a"}}}, Unknown: map[types.UID]bool{"a": true}}
	if same := Relabeled(labeled, unknown); same != labeled {
		t.Errorf("a label that it may need goes: %v", same.Labels)
	}
	bare := gcuNode("node-2")
	delete(bare.Labels, topsv1.LabelGcuPresent)
	if after := Relabeled(bare, unknown); after.Labels[topsv1.LabelGcuPresent] != "true" || after.Labels[topsv1.LabelGcushare] != "" {
		t.Errorf("labels %v", after.Labels)
	}
}

func TestDeviceLabels(t *testing.T) {
	const prefix = "feature.node.kubernetes.io/"
	for label, want := range map[string]bool{
		prefix + "pci-1e36.present":                     true,
		prefix + "pci-1200_1e36.present":                true,
		prefix + "pci-1200_1e36_0001_1e36_0001.present": true,
		prefix + "pci-1e36_c033.present":                true,
		prefix + "pci-1200_1e36.sriov.capable":          false,
		prefix + "pci-1e361.present":                    false,
		prefix + "pci-0300_10de.present":                false,
		prefix + "pci-XXXX_1e36.present":                false,
		"example.com/pci-1e36.present":                  false,
		"x" + prefix + "pci-1e36.present":               false,
	} {
		if got := deviceLabel.MatchString(label); got != want {
			t.Errorf("%s: got %v, want %v", label, got, want)
		}
	}
}

func TestTheRecordOfOwnedLabelsKeepsOthers(t *testing.T) {
	if got := withRecord([]string{"z", "a"}, "m", true); got != "a,m,z" {
		t.Errorf("adding: %q", got)
	}
	if got := withRecord([]string{"a", "m"}, "m", false); got != "a" {
		t.Errorf("taking out: %q", got)
	}
	if got := withRecord([]string{"m"}, "m", false); got != "" {
		t.Errorf("taking out the last: %q", got)
	}
}

func gcuNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		topsv1.LabelGcuPresent: "true", "feature.node.kubernetes.io/pci-1e36.present": "true"}}}
}
