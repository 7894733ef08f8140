package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// driverIs tells what is missing until all nodes have a version of the driver, pods of
// all components, and no mark of an upgrade.
func (s *stage) driverIs(tag, version string) error {
	for _, node := range allNodes {
		if err := s.runs(driverSet, node, tag); err != nil {
			return err
		}
		loaded, err := s.OnNode(s.ctx, node, nil, "cat", "/sys/module/enflame/version")
		if err != nil {
			return err
		}
		if strings.TrimSpace(loaded) != version {
			return fmt.Errorf("node %s has driver %q", node, loaded)
		}
		if n := s.node(node); n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is unschedulable: %t, taints %v", node, n.Spec.Unschedulable, n.Spec.Taints)
		}
	}
	return s.isRunning("6/6")
}

// driverWasNotForced checks that no driver was ever asked to go while a card was in
// use: its pod would have ended with an error, and begun again.
func (s *stage) driverWasNotForced() {
	s.t.Helper()
	for _, pod := range s.pods(system, nameLabel, driverSet) {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				s.t.Errorf("driver pod %s has begun %d times anew: %+v", pod.Name, c.RestartCount, c.LastTerminationState.Terminated)
			}
		}
	}
}

// driverUnderTraining: the cards are in use on all nodes when the driver is to be
// replaced.
func (s *stage) driverUnderTraining() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	before := map[types.UID]bool{}
	for _, pod := range s.train() {
		before[pod.UID] = true
	}
	observer := s.observe()
	s.set("driver", "2.0.0")
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", "2.0.0") })
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	s.driverWasNotForced()
	for _, pod := range s.pods("default", "app", "training") {
		if before[pod.UID] {
			s.t.Errorf("pod %s trains on although its driver was replaced", pod.Name)
		}
		// It ends with an error when it has no card.
		if c := pod.Status.ContainerStatuses[0]; c.RestartCount != 0 {
			s.t.Errorf("pod %s was there before its cards: %+v", pod.Name, c)
		}
		if log := s.kubectl("logs", pod.Name); !strings.Contains(log, "uses 2 cards, driver 2.0.0") {
			s.t.Errorf("pod %s says %s", pod.Name, log)
		}
	}
	s.clear()
	s.nodesAreClean()
}

// podBudget: a PodDisruptionBudget keeps the training where it is, until it is relaxed.
func (s *stage) podBudget() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	before := s.train()
	s.kubectl("apply", "-f", "test/nodes/testdata/budget.yaml")
	s.eventually("the budget allows nothing", func() error {
		allowed := s.kubectl("get", "pdb", "training", "--output=jsonpath={.status.expectedPods} {.status.disruptionsAllowed}")
		if allowed != "3 0" {
			return fmt.Errorf("it says %q", allowed)
		}
		return nil
	})
	s.set("driver", "2.0.0")
	s.eventually("the operation names the budget that refuses", func() error {
		var said []string
		for _, node := range allNodes {
			if op := s.upgrade(node).Status.Operation; op != nil {
				said = append(said, op.Message)
			}
		}
		if !slices.ContainsFunc(said, func(m string) bool {
			return strings.Contains(m, "default/training") && strings.Contains(m, "PodDisruptionBudget")
		}) {
			return fmt.Errorf("they say %q", said)
		}
		return nil
	})
	for _, pod := range before {
		var now corev1.Pod
		check(s.t, s.Client.Get(s.ctx, client.ObjectKeyFromObject(&pod), &now))
		if now.UID != pod.UID || now.DeletionTimestamp != nil || !ready(&now) {
			s.t.Errorf("pod %s does not train any more: %+v", pod.Name, now.Status)
		}
	}
	for _, node := range allNodes {
		if err := s.runs(driverSet, node, "latest"); err != nil {
			s.t.Error(err)
		}
	}
	s.kubectl("patch", "pdb", "training", "--type=merge", "--patch", `{"spec":{"minAvailable":2}}`)
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", "2.0.0") })
	s.driverWasNotForced()
	s.clear()
	s.nodesAreClean()
}

// powerLoss: one node loses everything but its disk while its pods are evicted, another
// one while its driver is replaced.
func (s *stage) powerLoss() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	s.train()
	observer := s.observe()
	s.set("driver", "2.0.0")
	lost := map[string]bool{s.managerNode(): true}
	for _, task := range []string{"node_evict", "driver_replace"} {
		victim := s.nodeAt(task, lost)
		lost[victim] = true
		check(s.t, s.KillNodes(s.ctx, victim))
		s.eventually("the cluster has noticed that "+victim+" is gone", func() error {
			if nodeReady(s.node(victim)) {
				return fmt.Errorf("it is Ready")
			}
			return nil
		})
		check(s.t, s.StartNodes(s.ctx, victim))
	}
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", "2.0.0") })
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	s.clear()
	s.nodesAreClean()
}

// nodeAt waits until the operation of a node is at a task, and returns the node. Some
// do not count.
func (s *stage) nodeAt(task string, except map[string]bool) (node string) {
	s.t.Helper()
	s.eventually("the operation of a node is at "+task, func() error {
		var at []string
		for _, name := range allNodes {
			op := s.upgrade(name).Status.Operation
			if op == nil || except[name] {
				continue
			}
			if op.Task == name+"_"+task {
				node = name
				return nil
			}
			at = append(at, op.Task)
		}
		return fmt.Errorf("they are at %q", at)
	})
	return node
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// badDriver: the first node of a rollout loses its network with the new driver. A
// person repairs the link; the driver is taken back.
func (s *stage) badDriver() {
	canary := s.victim()
	s.kubectl("label", "node", canary, "example.com/canary=true")
	s.deploy("AdvancedRollingUpdate", "distrustful")
	s.eventually("the driver is known to be good", func() error {
		if good := s.rollout().Status.LastKnownGood; good == nil {
			return fmt.Errorf("no revision is")
		}
		return nil
	})
	others := map[types.UID]bool{}
	for _, pod := range s.pods(system, nameLabel, driverSet) {
		if pod.Spec.NodeName != canary {
			others[pod.UID] = true
		}
	}
	route := strings.Fields(s.on(canary, "ip", "route", "show", "default"))
	s.set("driver", "cut-network")
	s.eventually("the canary is cut off", func() error {
		if nodeReady(s.node(canary)) {
			return fmt.Errorf("it is Ready")
		}
		return nil
	})
	s.eventually("the gr is back at the version before", func() error {
		var gr topsv1.GcuResource
		s.get(grName, &gr)
		if gr.Spec.Driver.Version != "latest" {
			return fmt.Errorf("it has %s", gr.Spec.Driver.Version)
		}
		return nil
	})
	for _, pod := range s.pods(system, nameLabel, driverSet) {
		if pod.Spec.NodeName != canary && !others[pod.UID] {
			s.t.Errorf("the driver of %s was replaced", pod.Spec.NodeName)
		}
	}
	s.on(canary, "ip", "link", "set", "eth0", "up")
	s.on(canary, append([]string{"ip", "route", "add"}, route...)...)
	s.eventually("all nodes have the old driver", func() error { return s.driverIs("latest", "1.0.0") })
	s.kubectl("label", "node", canary, "example.com/canary-")
	s.clear()
	s.nodesAreClean()
}
