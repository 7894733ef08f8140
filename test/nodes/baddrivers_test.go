package nodes

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// canaryLabel marks the node that the policies upgrade first.
const canaryLabel = "example.com/canary"

// canary is that node.
const canary = "real-1"

// failingDriver: the installer fails repeatedly.
func (s *stage) failingDriver() {
	s.deploy()
	s.rollOutAndRollBack("distrustful", "fail", operation.ReasonCrashLoop, "its module was made for another kernel")
}

// driverNeverReady: the installer never finishes.
func (s *stage) driverNeverReady() {
	s.rollOutAndRollBack("hasty", "never-ready", operation.ReasonProgressDeadline, "is not available yet")
}

// driverState is the visible state of the driver on a node: its pod, its version file
// with its write time, and the processes that use the cards.
type driverState struct {
	pod, training types.UID
	file          string
}

// otherDrivers returns the state of all nodes except the canary.
func (s *stage) otherDrivers() map[string]driverState {
	s.t.Helper()
	states := map[string]driverState{}
	for _, node := range allNodes {
		if node == canary {
			continue
		}
		state := driverState{training: s.trainerOn(node), file: s.on(node, "stat", "--format=%i %y", "/sys/module/enflame/version") + s.on(node, "cat", "/sys/module/enflame/version")}
		if pod := s.podOn(driverSet, node); pod != nil {
			state.pod = pod.UID
		}
		states[node] = state
	}
	return states
}

// untouched checks that all nodes except the canary are unchanged.
func (s *stage) untouched(before map[string]driverState) {
	s.t.Helper()
	for node, now := range s.otherDrivers() {
		if now != before[node] {
			s.t.Errorf("node %s was touched: it had %+v, now %+v", node, before[node], now)
		}
	}
}

// rollOutAndRollBack rolls out a driver that fails on the canary and is rolled back.
func (s *stage) rollOutAndRollBack(policy, bad, reason, says string) {
	s.t.Helper()
	s.waitLastKnownGood(policy)
	good := s.gr().Spec.Driver.Version
	before, observer := s.otherDrivers(), s.observe()
	s.set("driver", bad)
	s.eventually("the driver has failed on the canary", func() error { return s.failed(canary, reason, says) })
	s.rollbackIsComplete(good)
	s.untouched(before)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	told := s.gcu("status")
	for _, words := range []string{"rolled back by policy", canary, says} {
		if !strings.Contains(told, words) {
			s.t.Errorf("the status does not say %q", words)
		}
	}
}

// rollbackIsComplete waits until a rollback is complete and everything is restored.
func (s *stage) rollbackIsComplete(good string) {
	s.t.Helper()
	s.isRejected()
	s.eventually("all nodes have the driver from before", func() error { return s.driverIs(good, allNodes...) })
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	s.eventually("the rollback is complete", func() error {
		back := s.rollout().Status.Rollback
		if back == nil || back.CompletedTime == nil || !strings.Contains(back.Message, "1 of 1 started nodes failed") {
			return fmt.Errorf("the rollback is %+v", back)
		}
		return nil
	})
	s.eventually("all cards are used again", s.trains)
	s.set("driver", good) // a person takes the rejected version out of the spec
}

// isRejected waits until the newest spec is rejected.
func (s *stage) isRejected() {
	s.t.Helper()
	s.eventually("the new version is rejected", func() error {
		if back := s.rollout().Status.Rollback; back == nil || back.RejectedRevision == "" {
			return fmt.Errorf("the rollback is %+v", back)
		}
		return nil
	})
}

// cuttingDriver: the first node of a rollout loses its network with the new driver. A
// person repairs the link, and the driver is rolled back.
func (s *stage) cuttingDriver() {
	s.waitLastKnownGood("distrustful")
	good := s.gr().Spec.Driver.Version
	before := s.otherDrivers()
	route := strings.Fields(s.on(canary, "ip", "route", "show", "default"))
	s.set("driver", "cut-network")
	s.eventually("the canary is cut off", func() error {
		if nodeReady(s.node(canary)) {
			return fmt.Errorf("it is Ready")
		}
		return nil
	})
	s.isRejected()
	s.untouched(before)
	s.on(canary, "ip", "link", "set", "eth0", "up")
	s.on(canary, append([]string{"ip", "route", "add"}, route...)...)
	s.rollbackIsComplete(good)
	s.untouched(before)
}

// failed returns nil if the last operation on a node has ended with a reason and message.
func (s *stage) failed(node, reason, says string) error {
	history := s.upgrade(node).Status.History
	if len(history) == 0 {
		return fmt.Errorf("no operation has ended")
	}
	last := history[len(history)-1]
	if last.Phase != topsv1.OperationFailed || last.Reason != reason || !strings.Contains(last.Message, says) {
		return fmt.Errorf("the last operation that ended is %+v", last)
	}
	return nil
}

// hangingDriver: the driver ignores SIGTERM. The rollout stays halted until a person
// rolls out a working version.
func (s *stage) hangingDriver() {
	s.waitLastKnownGood("wary")
	next := other(s.gr().Spec.Driver.Version)
	before, observer := s.otherDrivers(), s.observe()
	s.set("driver", "hang")
	s.eventually("the driver has failed on the canary", func() error {
		return s.failed(canary, operation.ReasonProgressDeadline, "is not available yet")
	})
	s.eventually("the rollout is halted", func() error { return s.halted(canary) })
	s.untouched(before)
	s.reportsHalt(canary)

	hung := s.podOn(driverSet, canary)
	s.kubectl("patch", "gup", "wary", "--type=merge", "--patch", `{"spec":{"progressDeadlineSeconds":600}}`)
	file, upgraded := s.grFile(func(spec *topsv1.GcuResourceSpec) { spec.Driver.Version = next }), make(chan error, 1)
	go func() {
		_, err := s.tryGCU("upgrade", "--filename", file, "--wait")
		upgraded <- err
	}()
	asked := s.isTerminating(hung)
	s.eventually("the hanging pod has a replacement", func() error {
		pod := s.podOn(driverSet, canary)
		if pod == nil || pod.UID == hung.UID {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	if left := s.processesWith(canary, "STANDIN_BEHAVIOR=hang"); left != "" {
		s.t.Errorf("its processes are still there: %s", left)
	}
	s.hadItsGracePeriod(observer.Last(hung.UID), asked)
	check(s.t, <-upgraded)
	check(s.t, s.driverIs(next, allNodes...))
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
}

// reportsHalt checks that users see why a rollout is halted because of a node, and what
// to do.
func (s *stage) reportsHalt(node string) {
	s.t.Helper()
	told := s.gcu("status")
	for _, words := range []string{"Stopped (Halted)", "1 of 1 started nodes failed (" + node + ")", "is not available yet",
		"kubectl gcu rollback " + grName, "kubectl gcu task retry " + node + " driver_replace"} {
		if !strings.Contains(told, words) {
			s.t.Errorf("the status does not say %q", words)
		}
	}
	s.eventually("the gr says that it is halted", func() error {
		c := meta.FindStatusCondition(s.gr().Status.StandardConditions, "Degraded")
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Halted" || !strings.Contains(c.Message, node) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	described := s.kubectl("describe", "gr", grName)
	events := described[strings.LastIndex(described, "Events:"):]
	for _, words := range []string{"1 of 1 started nodes failed (" + node + "): roll out another revision, repair these nodes, or resume; 0 of 3",
		node + " failed: ProgressDeadline"} {
		if !strings.Contains(events, words) {
			s.t.Errorf("no event says %q:\n%s", words, events)
		}
	}
}

// halted returns nil if the rollout is halted because of a node.
func (s *stage) halted(node string) error {
	dro := s.rollout()
	for _, c := range dro.Status.Conditions {
		if c.Type == topsv1.RolloutHalted && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, node) {
			return nil
		}
	}
	return fmt.Errorf("it says %+v", dro.Status.Conditions)
}

// processesWith lists the processes of a node with a variable in their environment.
func (s *stage) processesWith(node, variable string) string {
	s.t.Helper()
	return strings.TrimSpace(s.on(node, "sh", "-c", "grep --files-with-matches --no-messages --text '"+variable+"' /proc/[0-9]*/environ || true"))
}

// grace is the default termination grace period.
const grace = 30 * time.Second

// isTerminating waits until a pod is being deleted with its full grace period, and returns
// the time of the deletion.
func (s *stage) isTerminating(pod *corev1.Pod) (since time.Time) {
	s.t.Helper()
	s.eventually("pod "+pod.Name+" is to end", func() error {
		var now corev1.Pod
		if err := s.Client.Get(s.ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			return err
		}
		if now.UID != pod.UID || now.DeletionTimestamp == nil {
			return fmt.Errorf("it is not being deleted")
		}
		has := time.Duration(*now.DeletionGracePeriodSeconds) * time.Second
		if has != grace {
			s.t.Errorf("pod %s has a grace period of %s", pod.Name, has)
		}
		since = now.DeletionTimestamp.Add(-has)
		return nil
	})
	return since
}

// hadItsGracePeriod checks, from the last status of a pod that ignores SIGTERM, that it was
// not killed before its grace period was over.
func (s *stage) hadItsGracePeriod(pod *corev1.Pod, asked time.Time) {
	s.t.Helper()
	if pod == nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
		s.t.Fatalf("the last state of the hanging pod was %+v", pod)
	}
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	const killed = 128 + int32(syscall.SIGKILL)
	if had := ended.FinishedAt.Sub(asked); ended.ExitCode != killed || had < grace-time.Second { // the API stores whole seconds
		s.t.Errorf("the hanging container had %s, and exited with code %d", had, ended.ExitCode)
	}
}
