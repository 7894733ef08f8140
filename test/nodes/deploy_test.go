package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultResource: the unchanged default blueprint (contract statement 32), on nodes that
// have a driver.
func (s *stage) defaultResource() {
	for _, node := range allNodes {
		s.installDriver(node)
	}
	s.findCards(allNodes...)
	s.kubectl("apply", "-f", "examples/gcu-resource.yaml")
	s.eventually("all nodes offer their cards", s.cardsAreOffered)
	s.eventually("the gr shows 5/5 Running", func() error { return s.isRunning("5/5") })
	s.showsCards()
	s.cleared()
}

// grWithDriver deploys a gr that includes the driver. Nobody but the operator restarts an engine. A
// node joins when the gr runs. On one node an impostor has the agent's port before it starts.
func (s *stage) grWithDriver() {
	late := dockerNode
	impostor := s.occupyAgentPort(victims[0])
	s.kubectl("label", "node", late, "feature.node.kubernetes.io/pci-1200_1e36.present-")
	s.findCards(victims...)
	s.createGR()
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	for _, node := range victims {
		if offered := s.node(node).Status.Allocatable[gcu]; offered.Value() != 2 {
			s.t.Errorf("the gr runs, and %s offers %s cards", node, offered.String())
		}
	}
	s.findCards(late)
	s.deployed()
	s.showsCards()
	s.servesBesideImpostor(victims[0], impostor)
}

// findCards gives nodes the label that nfd would detect.
func (s *stage) findCards(nodes ...string) {
	s.t.Helper()
	const features = "/etc/kubernetes/node-feature-discovery/features.d"
	for _, node := range nodes {
		s.on(node, "sh", "-c", "mkdir -p "+features+" && echo pci-1e36.present=true >"+features+"/pci")
	}
}

// showsCards waits until the cards are visible to the operator (node agents), the
// scheduler (labels) and in metrics.
func (s *stage) showsCards() {
	s.t.Helper()
	s.eventually("a node agent tells of each node", func() error {
		for _, node := range allNodes {
			host := s.upgrade(node).Status.Host
			if host == nil || host.DriverVersion != "1.0.0" || host.Devices == nil || *host.Devices != 2 {
				return fmt.Errorf("the agent of %s tells %+v", node, host)
			}
		}
		return nil
	})
	s.eventually("nodes are labeled with their cards", func() error {
		for _, node := range allNodes {
			if labels := s.node(node).Labels; labels["enflame.com/gcu.count"] != "2" || labels["enflame.com/gcu.present"] != "true" ||
				labels["feature.node.kubernetes.io/pci-1e36.present"] != "true" {
				return fmt.Errorf("node %s has labels %v", node, labels)
			}
		}
		return nil
	})
	for _, node := range allNodes {
		s.measuresCards(node)
	}
}

// measuresCards checks that the exporter of a node has metrics of its cards.
func (s *stage) measuresCards(node string) {
	s.t.Helper()
	if metrics := s.on(node, "curl", "--silent", "http://localhost:9400/metrics"); !strings.Contains(metrics, "enflame_gcu_count") {
		s.t.Errorf("the exporter of %s answers %q", node, metrics)
	}
}

// make runs a target of the Makefile on the cluster, like somebody who has the sources.
func (s *stage) make(target string) {
	s.t.Helper()
	kubectl := s.KubectlCommand(s.ctx)
	command := exec.CommandContext(s.ctx, "make", target)
	command.Dir, command.Env = kubectl.Dir, slices.Concat(kubectl.Env, []string{"PATH=" + filepath.Dir(kubectl.Path) + ":" + os.Getenv("PATH")})
	if output, err := command.CombinedOutput(); err != nil {
		s.t.Fatalf("make %s: %v: %s", target, err, output)
	}
}

// uninstall removes the gr and the operator; a second time there is nothing to remove.
func (s *stage) uninstall() {
	s.cleared()
	s.make("undeploy")
	s.make("undeploy")
	s.eventually("no pod is left", func() error {
		var pods corev1.PodList
		if err := s.Client.List(s.ctx, &pods); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("there are %d pods", len(pods.Items))
	})
	left := s.kubectl("get", "all,sa,role,rolebinding,clusterrole,clusterrolebinding,crd,validatingadmissionpolicy,validatingadmissionpolicybinding,"+
		"mutatingadmissionpolicy,mutatingadmissionpolicybinding,validatingwebhookconfiguration,mutatingwebhookconfiguration",
		"--all-namespaces", "--output=name")
	for name := range strings.Lines(left) {
		// nfd's CRD is kept (contract decision D16).
		if strings.Contains(name, "gcu") || strings.Contains(name, "enflame") && !strings.Contains(name, "nodefeaturerules") {
			s.t.Errorf("%s is left", strings.TrimSpace(name))
		}
	}
	s.eventually("no container runs on a node", func() error {
		for _, node := range allNodes {
			if running := s.processes(node); len(running) > 0 {
				return fmt.Errorf("node %s has containers %v", node, running)
			}
		}
		return nil
	})
	var nodes corev1.NodeList
	check(s.t, s.Client.List(s.ctx, &nodes, client.MatchingLabels{"enflame.com/gcu.present": "true"}))
	if len(nodes.Items) > 0 {
		s.t.Errorf("%d nodes are still labeled", len(nodes.Items))
	}
	s.nodesAreClean()
}
