package gcuresource

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// kubelet lets the kubelet of a node report a version, and the operator come to rest.
func (s *scene) kubelet(t *testing.T, node, version string) {
	t.Helper()
	s.kubeletReports(t, node, func(status *corev1.NodeStatus) { status.NodeInfo.KubeletVersion = version })
}

// toolkit returns the generation of the toolkit, and whether its probe reads the files of k3s.
func (s *scene) toolkit(t *testing.T) (generation int64, serves bool) {
	t.Helper()
	ds := &appsv1.DaemonSet{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-docker-plugin"}, ds); err != nil {
		t.Fatal(err)
	}
	return ds.Generation, strings.Contains(ds.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command[2], " /host/var/lib/rancher/k3s/")
}

// A node of k3s that comes changes the probe once; one that goes, comes back, or is there when the operator
// starts again replaces no pod.
func TestNodesOfK3sThatComeAndGoReplaceNoToolkitTwice(t *testing.T) {
	s := inMemory(t)
	s.spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Toolkit: &topsv1.BaseFields{}}
	if err := deployAll(s); err != nil {
		t.Fatal(err)
	}
	for _, node := range sceneNodes {
		s.reports(t, node)
	}
	s.kubelet(t, "node-1", "v1.33.1")
	before, serves := s.toolkit(t)
	if serves {
		t.Fatal("in a cluster of kubeadm the probe reads the files of k3s")
	}
	s.kubelet(t, "node-1", "v1.33.1+k3s1")
	first, serves := s.toolkit(t)
	if !serves || first != before+1 {
		t.Fatalf("with a node of k3s it is at generation %d after %d, serves=%t", first, before, serves)
	}
	for _, version := range []string{"v1.33.1", "v1.34.0+k3s1", "", "v1.34.0+k3s1"} {
		s.restart()
		s.kubelet(t, "node-1", version)
		if now, serves := s.toolkit(t); !serves || now != first {
			t.Errorf("when the kubelet is %q it is at generation %d after %d, serves=%t", version, now, first, serves)
		}
	}
}

// What is installed for a cluster of k3s is right from the beginning.
func TestTheToolkitOfAClusterOfK3sIsCreatedForIt(t *testing.T) {
	s := inMemory(t)
	s.spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Toolkit: &topsv1.BaseFields{}}
	for _, node := range sceneNodes {
		s.kubelet(t, node, "v1.33.1+k3s1")
	}
	if err := deployAll(s); err != nil {
		t.Fatal(err)
	}
	s.rests(t)
	if generation, serves := s.toolkit(t); !serves || generation != 1 {
		t.Errorf("it is at generation %d, serves=%t", generation, serves)
	}
}
