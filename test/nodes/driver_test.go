package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// driverIs tells what is missing until all nodes have a version of the driver, pods of
// all components, and no mark of an upgrade. It is asked often: what is on the nodes is
// looked at last, which takes a program on each.
func (s *stage) driverIs(tag, version string) error {
	for _, node := range allNodes {
		if err := s.runs(driverSet, node, tag); err != nil {
			return err
		}
		if err := s.givenBack(node); err != nil {
			return err
		}
	}
	if err := s.isRunning("6/6"); err != nil {
		return err
	}
	for _, node := range allNodes {
		loaded, err := s.OnNode(s.ctx, node, nil, "cat", "/sys/module/enflame/version")
		if err != nil {
			return err
		}
		if strings.TrimSpace(loaded) != version {
			return fmt.Errorf("node %s has driver %q", node, loaded)
		}
	}
	return nil
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

// deployed deploys the gr, unless a story before left it, with a good driver and with a
// training on all cards.
func (s *stage) deployed(policy string) {
	s.t.Helper()
	if s.kubectl("get", "gr", "--output=name") == "" {
		s.deploy("AdvancedRollingUpdate", policy)
		s.train()
	}
	s.kubectl("annotate", "--overwrite", "gr", grName, topsv1.AnnotationUpgradePolicy+"="+policy)
	s.eventually("the driver is known to be good", func() error {
		status := s.rollout().Status
		if good := status.LastKnownGood; good == nil || good.Revision != status.Revision {
			return fmt.Errorf("%s is to be there, known to be good is %+v", status.Revision, good)
		}
		return nil
	})
}

// goodDriver returns the version of the driver that the gr asks for, what it says of
// itself, and another version that works.
func (s *stage) goodDriver() (tag, version, other string) {
	s.t.Helper()
	if tag = s.gr().Spec.Driver.Version; tag == "latest" {
		return tag, "1.0.0", "2.0.0"
	}
	return tag, tag, "latest"
}

// driverUnderTraining: the cards are in use on all nodes when the driver is to be
// replaced. A PodDisruptionBudget keeps the training where it is, until it is relaxed.
func (s *stage) driverUnderTraining() {
	s.deployed("brisk")
	before := s.pods("default", "app", "training")
	s.kubectl("apply", "-f", "test/nodes/testdata/budget.yaml")
	s.eventually("the budget allows nothing", func() error {
		allowed := s.kubectl("get", "pdb", "training", "--output=jsonpath={.status.expectedPods} {.status.disruptionsAllowed}")
		if allowed != "3 0" {
			return fmt.Errorf("it says %q", allowed)
		}
		return nil
	})
	observer := s.observe()
	s.set("driver", "2.0.0")
	s.blocked(before)
	s.kubectl("patch", "pdb", "training", "--type=merge", "--patch", `{"spec":{"minAvailable":2}}`)
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", "2.0.0") })
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	s.driverWasNotForced()
	s.trainsAnew(before)
	s.kubectl("delete", "pdb", "training")
}

// blocked waits until the operation tells of the budget, and checks that nothing is touched.
func (s *stage) blocked(training []corev1.Pod) {
	s.t.Helper()
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
	for _, pod := range training {
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
}

// trainsAnew checks that all pods of the training were begun with the new driver.
func (s *stage) trainsAnew(before []corev1.Pod) {
	s.t.Helper()
	for _, pod := range s.pods("default", "app", "training") {
		if slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
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
}

// cleared takes away what the stories about drivers have in common.
func (s *stage) cleared() {
	s.kubectl("label", "nodes", "--all", canaryLabel+"-")
	s.clear()
	s.nodesAreClean()
}

func nodeReady(node *corev1.Node) bool { return nodeIs(node, corev1.NodeReady) }

// nodeIs tells whether a condition of a node is true.
func nodeIs(node *corev1.Node, condition corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}
