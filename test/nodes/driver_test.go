package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// driverIs returns nil if nodes have a version of the driver, Ready pods of all
// components, and no mark of an upgrade. It is polled, so the check that runs a program
// on each node comes last.
func (s *stage) driverIs(tag string, nodes ...string) error {
	for _, node := range nodes {
		if err := s.runs(driverSet, node, tag); err != nil {
			return err
		}
		if err := s.givenBack(node); err != nil {
			return err
		}
		for _, set := range criticalSets {
			if pod := s.podOn(set, node); set != agentSet && (pod == nil || !ready(pod)) {
				return fmt.Errorf("node %s has no pod of %s that is ready", node, set)
			}
		}
	}
	for _, node := range nodes {
		loaded, err := s.OnNode(s.ctx, node, nil, "cat", "/sys/module/enflame/version")
		if err != nil {
			return err
		}
		if strings.TrimSpace(loaded) != versionOf(tag) {
			return fmt.Errorf("node %s has driver %q", node, loaded)
		}
	}
	return nil
}

// driverWasNotForced checks that no driver was replaced while a card was in use: the
// container would have exited with this code. On a lost node it exits with another one.
func (s *stage) driverWasNotForced() {
	s.t.Helper()
	for _, pod := range s.pods(system, nameLabel, driverSet) {
		for _, c := range pod.Status.ContainerStatuses {
			if end := c.LastTerminationState.Terminated; end != nil && end.ExitCode == 1 {
				s.t.Errorf("driver pod %s could not unload the one before: %+v", pod.Name, end)
			}
		}
	}
}

// waitLastKnownGood waits until the current driver is the last known good revision, and sets
// the policy of the next upgrade.
func (s *stage) waitLastKnownGood(policy string) {
	s.t.Helper()
	s.settings(topsv1.AnnotationUpgradePolicy + "=quick")
	s.eventually("the driver is known to be good", func() error {
		status := s.rollout().Status
		if good := status.LastKnownGood; good == nil || good.Revision != status.Revision {
			return fmt.Errorf("%s is to be there, known to be good is %+v", status.Revision, good)
		}
		return nil
	})
	s.settings(topsv1.AnnotationUpgradePolicy + "=" + policy)
}

// versionOf returns the version that the driver or toolkit of an image reports.
func versionOf(tag string) string {
	if tag == "latest" {
		return "1.0.0"
	}
	return tag
}

// other returns the other of two working versions.
func other(tag string) string {
	if tag == "latest" {
		return "2.0.0"
	}
	return "latest"
}

// driverUnderTraining: the cards are in use on all nodes when the driver is to be
// replaced. A PodDisruptionBudget blocks the evictions until it is relaxed; meanwhile nobody is
// evicted, not even pods that it does not protect. One node loses its network during its drain, and
// during the other's drain the manager is killed.
func (s *stage) driverUnderTraining() {
	before := append(s.trainingOn(victims[0]), s.trainingOn(victims[1])...)
	s.settings(topsv1.AnnotationUpgradePolicy + "=brisk")
	const neighbors = "test/nodes/testdata/neighbors.yaml"
	s.kubectl("apply", "-f", "test/nodes/testdata/budget.yaml")
	s.kubectl("apply", "-f", neighbors)
	s.kubectl("rollout", "status", "deployment/neighbors", "--timeout=1m")
	s.eventually("the budget allows nothing", func() error {
		allowed := s.kubectl("get", "pdb", "training", "--output=jsonpath={.status.expectedPods} {.status.disruptionsAllowed}")
		if allowed != "3 0" {
			return fmt.Errorf("it says %q", allowed)
		}
		return nil
	})
	departures, err := harness.WatchDepartures(s.ctx, s.Cluster)
	check(s.t, err)
	observer, manager := s.observe(), s.managerPod()
	holder := s.holdsCard(victims[0])
	s.limitedTo(victims...)
	s.set("driver", "2.0.0")
	s.blocked(before)
	s.eventually("the operation names the process that has a card open", func() error {
		op, want := s.upgrade(victims[0]).Status.Operation, fmt.Sprintf("process %s (sleep, uid 0) has /dev/gcu0 open: stop it", holder)
		if op == nil || !strings.Contains(op.Message, want) {
			return fmt.Errorf("it does not say %q: %+v", want, op)
		}
		return nil
	})
	s.on(victims[0], "kill", holder)
	if gone := departures.Take(); len(gone) > 0 {
		s.t.Errorf("evicted while a budget refuses others: %v", gone)
	}
	s.kubectl("delete", "-f", neighbors, "--wait")
	s.eventually("the neighbors are gone", func() error {
		if left := s.pods("default", "app", "neighbors"); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
	departures.Take()
	s.kubectl("patch", "pdb", "training", "--type=merge", "--patch", `{"spec":{"minAvailable":2}}`)

	first, evicted := s.drainBegins("")
	s.disconnectDuringDrain(first, evicted, observer)
	second, evicted := s.drainBegins(first)
	s.managerKilled(manager, second, evicted)
	s.endsWell(observer, departures)
	s.driverWasNotForced()
	s.trainingWasReplaced(before)
	check(s.t, s.managerBegan(manager, 1))
	s.kubectl("delete", "pdb", "training")
}

// holdsCard starts a process on a node, outside of containers, that has a card open.
func (s *stage) holdsCard(node string) (pid string) {
	s.t.Helper()
	return strings.TrimSpace(s.on(node, "sh", "-c", "sleep 86400 </dev/gcu0 >/dev/null 2>&1 & echo $!"))
}

// blocked waits until the operation reports the PodDisruptionBudget, and checks that
// nothing is touched.
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
			s.t.Errorf("pod %s no longer trains: %+v", pod.Name, now.Status)
		}
	}
	for _, node := range victims {
		if err := s.runs(driverSet, node, "latest"); err != nil {
			s.t.Error(err)
		}
	}
}

// trainingWasReplaced checks that the training pods of the victims were replaced and use the new
// driver.
func (s *stage) trainingWasReplaced(before []corev1.Pod) {
	s.t.Helper()
	for _, pod := range append(s.trainingOn(victims[0]), s.trainingOn(victims[1])...) {
		if slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
			s.t.Errorf("pod %s was not replaced although its driver was", pod.Name)
		}
		// It fails without a card.
		if c := pod.Status.ContainerStatuses[0]; c.RestartCount != 0 {
			s.t.Errorf("pod %s started before its cards were available: %+v", pod.Name, c)
		}
		if log := s.kubectl("logs", pod.Name); !strings.Contains(log, "uses 2 cards, driver 2.0.0") {
			s.t.Errorf("pod %s says %s", pod.Name, log)
		}
	}
}

func nodeReady(node *corev1.Node) bool { return nodeIs(node, corev1.NodeReady) }

// nodeIs reports whether a condition of a node is true.
func nodeIs(node *corev1.Node, condition corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}
