package kind

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// place returns the nodes that the pods of the stories run on, and the last of them that can lose its link:
// it runs neither the control plane, which has no taint with k3s, nor the manager. Away is empty if there is none.
func place(nodes []corev1.Node, manager string) (schedulable []string, away string) {
	for _, node := range nodes {
		if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
			continue
		}
		schedulable = append(schedulable, node.Name)
		if node.Name != manager && !observed.IsControlPlane(&node) {
			away = node.Name
		}
	}
	return schedulable, away
}

func TestANodeOfTheControlPlaneOrOfTheManagerIsNeverTakenOffline(t *testing.T) {
	node := func(name string, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, label := range labels {
			n.Labels[label] = "true"
		}
		return n
	}
	tainted := node("kind-control-plane", "node-role.kubernetes.io/control-plane")
	tainted.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	agent0, agent1 := node("k3d-agent-0"), node("k3d-agent-1")
	server, old := node("k3d-server-0", "node-role.kubernetes.io/control-plane"), node("k3d-server-1", "node-role.kubernetes.io/master")
	for _, c := range []struct {
		name     string
		nodes    []corev1.Node
		manager  string
		runOn    []string
		awayNode string
	}{
		{"k3d's server has no taint and comes last", []corev1.Node{agent0, agent1, server, old}, "k3d-agent-0", []string{"k3d-agent-0", "k3d-agent-1", "k3d-server-0", "k3d-server-1"}, "k3d-agent-1"},
		{"the manager runs on the last worker", []corev1.Node{agent0, agent1, server}, "k3d-agent-1", []string{"k3d-agent-0", "k3d-agent-1", "k3d-server-0"}, "k3d-agent-0"},
		{"the manager runs on the only worker", []corev1.Node{agent0, server}, "k3d-agent-0", []string{"k3d-agent-0", "k3d-server-0"}, ""},
		{"kind's control plane has a taint", []corev1.Node{tainted, agent0, agent1}, "k3d-agent-0", []string{"k3d-agent-0", "k3d-agent-1"}, "k3d-agent-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runOn, away := place(c.nodes, c.manager); !slices.Equal(runOn, c.runOn) || away != c.awayNode {
				t.Errorf("pods run on %q, and %q is taken offline; want %q and %q", runOn, away, c.runOn, c.awayNode)
			}
		})
	}
}
