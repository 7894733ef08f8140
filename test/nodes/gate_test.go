package nodes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/harness"
)

// The gate of config/gate on real kubelets: however a pod is made, its node keeps the version that it
// had until it is its turn.

// gatedHold: a driver pod is deleted by hand while the gr is paused, and on a held node while the
// others are upgraded. The manager is killed in between.
func (s *stage) gatedHold() {
	s.kubectl("apply", "--server-side", "--force-conflicts", "-k", "test/nodes/testdata/gated")
	s.letAgentsRestartEngines()
	s.kubectl("rollout", "status", "deployment/gcu-operator", "--namespace="+system, "--timeout=2m")
	s.deploy()
	s.isSettled(system, grName, driverSet)
	s.settings(topsv1.AnnotationPaused + "=true")
	s.set("driver", "2.0.0")
	s.isClosed(system, grName, driverSet)
	s.driverDies(victims[0], "latest")

	s.gcu("hold", victims[1])
	s.settings(topsv1.AnnotationPaused + "-")
	s.eventually("all but the held node are upgraded", func() error { return s.driverIs("2.0.0", victims[0], managerNode) })
	s.driverDies(victims[1], "latest")
	s.diesUnseen(victims[1], "latest")
	s.driverDies(victims[0], "2.0.0")

	s.gcu("release", victims[1])
	s.eventually("all nodes are upgraded", func() error { return s.driverIs("2.0.0", allNodes...) })
	s.driverWasNotForced()
	s.eventually("all cards are used again", s.trains)
}

// gatedUndo: one node goes back to the driver before, by an administrator and by the person at the node, is kept at it, and
// gets the newest one again. No other node changes.
func (s *stage) gatedUndo() {
	s.isSettled(system, grName, driverSet)
	const task = "driver_replace"
	undo := map[string]func(){
		victims[0]: func() { s.gcu("task", "undo", victims[0], task, "--wait") },
		victims[1]: func() {
			answer := s.on(victims[1], "curl", "--silent", "--fail", "--request", "POST", "--unix-socket", otaSocket, "http://localhost/v1/components/driver/rollback")
			s.t.Logf("the node answers %s", answer)
		},
	}
	for _, node := range victims {
		elsewhere := slices.DeleteFunc(slices.Clone(allNodes), func(n string) bool { return n == node })
		undo[node]()
		s.eventually(node+" is back at the driver before", func() error { return s.driverIs("latest", node) })
		check(s.t, s.driverIs("2.0.0", elsewhere...))
		s.eventually(node+" is pinned", func() error { // until then its operation ends
			pinned, err := s.tryGCU("nodes", "--state", "pinned")
			if err == nil && !strings.Contains(pinned, node) {
				err = fmt.Errorf("the pinned nodes are %s", pinned)
			}
			return err
		})
		s.eventually("all cards are used again", s.trains)
		s.driverDies(node, "latest")
		if node == victims[0] {
			s.everythingEnds(node)
			s.eventually(node+" has the driver before after its boot", func() error { return s.driverIs("latest", node) })
		}
		s.gcu("task", "retry", node, task, "--wait")
		s.eventually("all nodes have the newest driver", func() error { return s.driverIs("2.0.0", allNodes...) })
		s.eventually("all cards are used again", s.trains)
	}
	s.driverWasNotForced()
}

// everythingEnds kills the manager, exchanges the agent of a node, and takes the node's power for a moment.
func (s *stage) everythingEnds(node string) {
	s.t.Helper()
	manager := s.managerPod()
	process, err := harness.PodProcess(manager, "manager")
	check(s.t, err)
	restarts := int(manager.Status.ContainerStatuses[0].RestartCount)
	check(s.t, syscall.Kill(process, syscall.SIGKILL))
	s.restartAgent(node)
	s.eventually("the manager runs again", func() error { return s.managerBegan(manager, restarts+1) })
	boot := s.upgrade(node).Status.Host.BootID
	check(s.t, s.KillNodes(s.ctx, node))
	check(s.t, s.StartNodes(s.ctx, node))
	s.eventually("the agent of "+node+" reports its boot", func() error {
		if now := s.upgrade(node).Status.Host.BootID; now == boot {
			return fmt.Errorf("it is still %s", now)
		}
		return nil
	})
}

// gatedOTA: a driver pod is deleted, and a node leaves and joins again, before an upgrade is requested there.
func (s *stage) gatedOTA() {
	s.isSettled(system, grName, driverSet)
	s.settings(topsv1.AnnotationUpdateStrategy + "=OTA")
	s.set("driver", "latest")
	s.isClosed(system, grName, driverSet)
	s.driverDies(victims[0], "2.0.0")

	node := victims[1]
	old := s.podOn(driverSet, node)
	s.kubectl("delete", "node", node)
	s.eventually("the pods of "+node+" are gone", func() error {
		if pod := s.podOn(driverSet, node); pod != nil {
			return fmt.Errorf("pod %s is there", pod.Name)
		}
		return nil
	})
	s.on(node, "/etc/init.d/kubelet", "restart")
	s.findCards(node)
	s.comesBack(node, "2.0.0", old)
	s.settings(topsv1.AnnotationUpdateStrategy + "=AdvancedRollingUpdate")
	s.eventually("all nodes are upgraded", func() error { return s.driverIs("latest", allNodes...) })
	s.eventually("all cards are used again", s.trains)
}

// gatedHalt: the first node fails, and the driver pod of another one is deleted.
func (s *stage) gatedHalt() {
	s.isSettled(system, grName, driverSet)
	s.waitLastKnownGood("wary")
	s.set("driver", "fail")
	s.eventually("the rollout is halted", func() error { return s.halted(canary) })
	s.driverDies(managerNode, "latest")
	s.driverDies(victims[1], "latest")
	s.settings(topsv1.AnnotationUpgradePolicy + "=brisk")
	s.set("driver", "latest")
	s.eventually("all nodes have the good driver", func() error { return s.driverIs("latest", allNodes...) })
	s.eventually("all cards are used again", s.trains)
}

// gatedEviction: a kubelet under disk pressure evicts a pod of a paused rollout again and again.
func (s *stage) gatedEviction() {
	const name, node = "plain", "real-2"
	s.kubectl("apply", "-f", "test/nodes/testdata/gated/plain.yaml")
	s.isSettled("default", name, name)
	s.kubectl("annotate", "daemonset", name, "--namespace=default", topsv1.AnnotationPaused+"=true")
	s.kubectl("set", "env", "daemonset/"+name, "--namespace=default", "VERSION=2")
	s.isClosed("default", name, name)
	observer, err := harness.Observe(s.ctx, s.Cluster, nameLabel+"="+name)
	check(s.t, err)
	evicted := s.plainOn(node)
	if evicted == nil {
		s.t.Fatalf("no pod of %s on %s", name, node)
	}
	s.underDiskPressure(node, func() {
		s.eventually("the pod was evicted", func() error {
			if last := observer.Last(evicted.UID); last == nil || last.Status.Reason != "Evicted" {
				return fmt.Errorf("its last state was %+v", last)
			}
			return nil
		})
	})
	s.eventually("the pod is back as it was", func() error {
		pod := s.plainOn(node)
		if pod == nil || pod.UID == evicted.UID || !ready(pod) {
			return fmt.Errorf("there is %v", pod)
		}
		if pod.Spec.Containers[0].Env[0].Value != "1" {
			s.t.Errorf("it is of version %s", pod.Spec.Containers[0].Env[0].Value)
		}
		return nil
	})
	s.kubectl("delete", "daemonset", name, "--namespace=default")
}

// plainOn returns the bound pod of the plain DaemonSet on a node that has not ended, nil if there is none.
func (s *stage) plainOn(node string) *corev1.Pod {
	s.t.Helper()
	for _, pod := range s.pods("default", nameLabel, "plain") {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			return &pod
		}
	}
	return nil
}

// driverDies deletes the driver pod of a node, which comes back as it was.
func (s *stage) driverDies(node, version string) {
	s.t.Helper()
	s.dies(node, version, func() {})
}

// diesUnseen is the same while the manager is frozen, which is killed once the new pod waits at the gate.
func (s *stage) diesUnseen(node, version string) {
	s.t.Helper()
	manager := s.managerPod()
	process, err := harness.PodProcess(manager, "manager")
	check(s.t, err)
	check(s.t, syscall.Kill(process, syscall.SIGSTOP))
	s.dies(node, version, func() {
		s.eventually("the new pod waits at the gate", func() error {
			if !slices.ContainsFunc(s.pods(system, nameLabel, driverSet), func(p corev1.Pod) bool {
				return daemonset.NodeName(&p) == node && daemonset.AwaitsUpgrade(&p)
			}) {
				return fmt.Errorf("no pod for %s does", node)
			}
			return nil
		})
		check(s.t, syscall.Kill(process, syscall.SIGKILL))
	})
	s.eventually("the manager runs again", func() error { return s.managerBegan(manager, 1) })
}

// dies deletes the driver pod of a node. It comes back as it was, and no process that uses the cards ends.
func (s *stage) dies(node, version string, meanwhile func()) {
	s.t.Helper()
	old, training := s.podOn(driverSet, node), s.trainerOn(node)
	if old == nil {
		s.t.Fatalf("no driver pod on %s", node)
	}
	check(s.t, s.Client.Delete(s.ctx, old))
	meanwhile()
	s.comesBack(node, version, old)
	if now := s.trainerOn(node); now != training {
		s.t.Errorf("pod %s trains on %s, before it was %s", now, node, training)
	}
}

// comesBack waits until a node has another driver pod than an old one, of a version that it keeps to.
func (s *stage) comesBack(node, version string, old *corev1.Pod) {
	s.t.Helper()
	s.eventually("the driver of "+node+" comes back", func() error {
		if pod := s.podOn(driverSet, node); pod == nil || pod.UID == old.UID || !ready(pod) {
			return fmt.Errorf("it is not back")
		}
		return nil
	})
	check(s.t, s.runs(driverSet, node, version))
	if loaded := strings.TrimSpace(s.on(node, "cat", "/sys/module/enflame/version")); loaded != versionOf(version) {
		s.t.Errorf("%s has driver %s, want %s", node, loaded, version)
	}
}

// isSettled waits until every node has the newest revision of a DaemonSet, and the gate knows it.
func (s *stage) isSettled(namespace, rollout, set string) {
	s.t.Helper()
	s.gateIs("settled", namespace, rollout, set, func(target, settled string) bool { return target == settled })
}

// isClosed waits until the gate, which was settled, is closed to the newest revision of a DaemonSet.
func (s *stage) isClosed(namespace, rollout, set string) {
	s.t.Helper()
	s.gateIs("closed", namespace, rollout, set, func(target, settled string) bool { return settled != target })
}

// gateIs waits until the newest and the settled revision of a DaemonSet fulfill a condition.
func (s *stage) gateIs(what, namespace, rollout, set string, is func(target, settled string) bool) {
	s.t.Helper()
	s.eventually("the gate is "+what, func() error {
		var dro topsv1.DaemonRollout
		if err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: rollout}, &dro); err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: namespace, Name: set}.String()
		of := func(t topsv1.RevisionTarget) bool { return t.DaemonSet == key }
		target, settled := slices.IndexFunc(dro.Status.Targets, of), slices.IndexFunc(dro.Status.Settled, of)
		if target < 0 || settled < 0 || !is(dro.Status.Targets[target].Hash, dro.Status.Settled[settled].Hash) {
			return fmt.Errorf("the targets are %v, settled are %v", dro.Status.Targets, dro.Status.Settled)
		}
		return nil
	})
}
