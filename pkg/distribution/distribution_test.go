package distribution

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodesOfADistribution(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		labels  map[string]string
		want    bool
	}{
		"k3s":                              {"v1.33.1+k3s1", nil, true},
		"a candidate of k3s":               {"v1.33.1-rc1+k3s1", nil, true},
		"RKE2":                             {"v1.33.1+rke2r2", nil, true},
		"MicroK8s":                         {"v1.33.1", map[string]string{"microk8s.io/cluster": "true"}, true},
		"kubeadm":                          {"v1.33.1", nil, false},
		"k0s, whose files are not known":   {"v1.33.1+k0s", nil, false},
		"KubeEdge, which has an engine":    {"v1.32.2-kubeedge-v1.21.0", nil, false},
		"a node that says nothing":         {"", nil, false},
		"a label that is not of MicroK8s":  {"v1.33.1", map[string]string{"microk8s.io/other": "true"}, false},
		"a kubelet that only sounds alike": {"v1.33.1-k3s+vendor", nil, false},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: test.version}}}
		if got := Brings(node); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
