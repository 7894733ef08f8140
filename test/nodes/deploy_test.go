package nodes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultResource: the default blueprint as it is (contract statement 32), on nodes
// that have a driver.
func (s *stage) defaultResource() {
	const features = "/etc/kubernetes/node-feature-discovery/features.d"
	for _, node := range allNodes {
		s.installDriver(node)
		// nfd finds the cards; the stand-in is told.
		s.on(node, "sh", "-c", "mkdir -p "+features+" && echo pci-1e36.present=true >"+features+"/pci")
	}
	s.kubectl("apply", "-f", "examples/gcu-resource.yaml")
	s.eventually("the gr shows 5/5 Running", func() error { return s.isRunning("5/5") })
	s.eventually("a node agent tells of each node", func() error {
		for _, node := range allNodes {
			host := s.upgrade(node).Status.Host
			if host == nil || host.DriverVersion != "1.0.0" || host.Devices == nil || *host.Devices != 2 {
				return fmt.Errorf("the agent of %s tells %+v", node, host)
			}
		}
		return nil
	})
	s.startEngineAnew()
	s.eventually("nodes are labelled with their cards", func() error {
		for _, node := range allNodes {
			if labels := s.node(node).Labels; labels["enflame.com/gcu.count"] != "2" || labels["enflame.com/gcu.present"] != "true" ||
				labels["feature.node.kubernetes.io/pci-1e36.present"] != "true" {
				return fmt.Errorf("node %s has labels %v", node, labels)
			}
		}
		return nil
	})
	for _, node := range allNodes {
		if metrics := s.on(node, "curl", "--silent", "http://localhost:9400/metrics"); !strings.Contains(metrics, "enflame_gcu_count") {
			s.t.Errorf("the exporter of %s answers %q", node, metrics)
		}
	}
	s.clear()
	s.nodesAreClean()
}

// uninstall takes the operator away, as it was installed.
func (s *stage) uninstall() {
	s.kubectl("delete", "-k", "config/default", "--wait=true")
	s.eventually("no pod is left", func() error {
		var pods corev1.PodList
		if err := s.Client.List(s.ctx, &pods); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("there are %d pods", len(pods.Items))
	})
	left := s.kubectl("get", "all,sa,role,rolebinding,clusterrole,clusterrolebinding,crd,validatingadmissionpolicy,validatingadmissionpolicybinding",
		"--all-namespaces", "--output=name")
	for name := range strings.Lines(left) {
		// The CRD of nfd is not the operator's alone (contract decision D16).
		if strings.Contains(name, "gcu") || strings.Contains(name, "enflame") && !strings.Contains(name, "nodefeaturerules") {
			s.t.Errorf("%s is left", strings.TrimSpace(name))
		}
	}
	s.eventually("no container is left on a node", func() error {
		for _, node := range allNodes {
			if containers := s.on(node, "ctr", "--namespace=k8s.io", "containers", "list", "--quiet"); strings.TrimSpace(containers) != "" {
				return fmt.Errorf("node %s has containers %s", node, containers)
			}
		}
		return nil
	})
	var nodes corev1.NodeList
	check(s.t, s.Client.List(s.ctx, &nodes, client.MatchingLabels{"enflame.com/gcu.present": "true"}))
	if len(nodes.Items) > 0 {
		s.t.Errorf("%d nodes are still labelled", len(nodes.Items))
	}
	s.nodesAreClean()
}
