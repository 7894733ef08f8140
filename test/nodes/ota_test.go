package nodes

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// otaSocket is the node agent's socket for root.
const otaSocket = "/run/gcu-node-agent/ota.sock"

// otaUpgrade is the second example of the OpenYurt document, with its curl commands: a
// person at a node lists its pods and upgrades one. After another person has done the
// same, the third node is still unchanged.
func (s *stage) otaUpgrade() {
	s.settings(topsv1.AnnotationUpdateStrategy+"=OTA", topsv1.AnnotationUpgradeOnly+"-")
	observer := s.observe()
	s.set("exporter", "2.0.0")
	s.eventually("all exporters can be upgraded", func() error {
		for _, pod := range s.pods(system, nameLabel, exporterSet) {
			if needs := needUpgrade(&pod); needs != corev1.ConditionTrue {
				return fmt.Errorf("%s of pod %s is %q", topsv1.PodNeedUpgrade, pod.Name, needs)
			}
		}
		return nil
	})
	for i, node := range victims {
		s.upgradeAt(node)
		if replaced := observer.Replaced(); replaced != i+1 {
			s.t.Errorf("%d pods were replaced, want %d", replaced, i+1)
		}
	}
	check(s.t, s.runs(exporterSet, managerNode, "latest"))
}

// upgradeAt upgrades the only outdated pod of a node through its agent.
func (s *stage) upgradeAt(node string) {
	s.t.Helper()
	var list corev1.PodList
	check(s.t, json.Unmarshal([]byte(s.on(node, "curl", "--silent", "--unix-socket", otaSocket, "http://localhost/pods")), &list))
	var exporter *corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; needUpgrade(pod) == corev1.ConditionTrue {
			if exporter != nil {
				s.t.Errorf("%s and %s can be upgraded", exporter.Name, pod.Name)
			}
			exporter = pod
		}
	}
	if exporter == nil || exporter.Labels[nameLabel] != exporterSet || exporter.Spec.NodeName != node {
		s.t.Fatalf("the node shows %+v", exporter)
	}
	answer := s.on(node, "curl", "--silent", "--request", "POST", "--unix-socket", otaSocket,
		"http://localhost/openyurt.io/v1/namespaces/"+exporter.Namespace+"/pods/"+exporter.Name+"/upgrade")
	if want := "Start updating pod " + exporter.Namespace + "/" + exporter.Name; strings.TrimSpace(answer) != want {
		s.t.Errorf("the node answers %q, want %q", answer, want)
	}
	s.eventually("node "+node+" is upgraded", func() error { return s.runs(exporterSet, node, "2.0.0") })
}

func needUpgrade(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == topsv1.PodNeedUpgrade {
			return c.Status
		}
	}
	return ""
}
