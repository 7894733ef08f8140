package component

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestTheToolkitServesDistributionsWhereTheyRun(t *testing.T) {
	node := func(kubelet string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet}}}
	}
	gr := newGR(topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}})
	ordinary := render(t, gr)[Toolkit].PerNode
	running := ordinary.DeepCopy()
	running.Status.DesiredNumberScheduled = 1
	serving := renderIn(t, Cluster{Distributions: true}, gr)[Toolkit].PerNode
	gcu := map[string]string{topsv1.LabelGcuPresent: "true"}
	offline := node("v1.33.1+k3s1", gcu)
	offline.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	for name, test := range map[string]struct {
		live  *appsv1.DaemonSet
		nodes []*corev1.Node
		want  bool
	}{
		"no node":                              {nil, nil, false},
		"nodes of kubeadm":                     {nil, []*corev1.Node{node("v1.33.1", gcu)}, false},
		"a node of k3s":                        {nil, []*corev1.Node{node("v1.33.1", gcu), node("v1.33.1+k3s1", gcu)}, true},
		"a node of k3s that is offline":        {nil, []*corev1.Node{offline}, true},
		"a server of k3s, before the others":   {nil, []*corev1.Node{node("v1.33.1+k3s1", nil)}, true},
		"one of a toolkit without a pod":       {ordinary, []*corev1.Node{node("v1.33.1+k3s1", nil)}, true},
		"a node of RKE2, later":                {running, []*corev1.Node{node("v1.33.1+rke2r1", gcu)}, true},
		"a server of k3s that has no GCU":      {running, []*corev1.Node{node("v1.33.1+k3s1", nil), node("v1.33.1", gcu)}, false},
		"the nodes of k3s are gone":            {serving, nil, true},
		"the nodes of k3s are ordinary by now": {serving, []*corev1.Node{node("v1.33.1", gcu)}, true},
		"the probe was removed by hand":        {&appsv1.DaemonSet{}, nil, false},
	} {
		if got := ClusterOf(test.live, ordinary, test.nodes).Distributions; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Where the spec names the file, nothing is found out.
func TestASpecThatNamesTheFileIsRenderedTheSameInEveryCluster(t *testing.T) {
	gr := newGR(topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{Env: []corev1.EnvVar{{Name: EnvContainerdConfig, Value: "/x"}}}})
	if diff := cmp.Diff(render(t, gr)[Toolkit].PerNode, renderIn(t, Cluster{Distributions: true}, gr)[Toolkit].PerNode); diff != "" {
		t.Errorf("with nodes of distributions (-without +with):\n%s", diff)
	}
}
