package nodes

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// cutOffNode is the first example of the OpenYurt document: disconnect a node, upgrade,
// reconnect it.
func (s *stage) cutOffNode() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	victim := s.victim()
	before := s.podOn(exporterSet, victim)
	_, err := s.NodesOff(s.ctx, victim)
	check(s.t, err)
	observer := s.observe()
	s.set("exporter", "2.0.0")
	for _, node := range allNodes {
		if node != victim {
			s.eventually("node "+node+" is upgraded", func() error { return s.runs(exporterSet, node, "2.0.0") })
		}
	}
	s.eventually("the rollout says that it skipped the node", func() error {
		for _, note := range s.rollout().Status.Skipped {
			if note.Node == victim {
				return nil
			}
		}
		return fmt.Errorf("it skipped %+v", s.rollout().Status.Skipped)
	})
	if metrics := s.on(victim, "curl", "--silent", "http://localhost:9400/metrics"); !strings.Contains(metrics, "enflame_gcu_count") {
		s.t.Errorf("on the node that is cut off the exporter answers %q", metrics)
	}
	if now := s.podOn(exporterSet, victim); now == nil || now.UID != before.UID {
		s.t.Errorf("the pod of the node that is cut off was deleted")
	}
	_, err = s.NodesOn(s.ctx, victim)
	check(s.t, err)
	s.eventually("the node is upgraded too", func() error { return s.runs(exporterSet, victim, "2.0.0") })
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	if replaced := observer.Replaced(); replaced != len(allNodes) {
		s.t.Errorf("%d pods were replaced", replaced)
	}
	s.clear()
	s.nodesAreClean()
}

// otaSocket is where the node agent serves root.
const otaSocket = "/run/gcu-node-agent/ota.sock"

// overTheAir is the second example of the OpenYurt document, with its own requests: a
// person at a node sees what there is, and upgrades it.
func (s *stage) overTheAir() {
	s.deploy("OTA", "brisk")
	const node = "real-1"
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
	s.eventually("the node is upgraded", func() error { return s.runs(exporterSet, node, "2.0.0") })
	s.never("another pod is replaced", func() bool { return observer.Replaced() > 1 })
	for _, other := range allNodes {
		if other != node {
			check(s.t, s.runs(exporterSet, other, "latest"))
		}
	}
	s.clear()
	s.nodesAreClean()
}

func needUpgrade(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == topsv1.PodNeedUpgrade {
			return c.Status
		}
	}
	return ""
}

// staysFor is how long nothing may happen where nothing is to happen.
const staysFor = 5 * time.Second

// never looks for a while at what must not happen.
func (s *stage) never(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(staysFor); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if is() {
			s.tell()
			s.t.Fatal(what)
		}
	}
}
