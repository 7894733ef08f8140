package nodes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/harness"
)

// disconnectDuringDrain disconnects a node while its pods are being evicted, and reconnects it.
// The node keeps its slot, no other node is started in its place, and pods that end while
// it is offline are not evicted again.
func (s *stage) disconnectDuringDrain(node string, evicted *corev1.Pod, observer *harness.Observer) {
	s.t.Helper()
	_, err := s.NodesOff(s.ctx, node)
	check(s.t, err)
	// The API server does not know that the pod has ended: the node went offline during its
	// drain.
	if pod, err := s.pod(evicted); err != nil || pod.DeletionTimestamp == nil {
		s.t.Fatalf("pod %s is not being evicted: %v", evicted.Name, err)
	}
	s.eventually("the operation waits for the node, at its drain", func() error {
		op := s.upgrade(node).Status.Operation
		if op == nil || op.Task != node+"_node_evict" || op.Reason != "NodeOffline" {
			return fmt.Errorf("it is %+v", op)
		}
		return nil
	})
	s.eventually("on the node the pod has ended", func() error {
		if process, err := harness.PodProcess(evicted, "standin"); err == nil {
			return fmt.Errorf("it is process %d", process)
		}
		return nil
	})
	before := observer.Replaced()
	s.decided()
	if slots := s.rollout().Status.InFlight; len(slots) != 1 || slots[0].Node != node || observer.Replaced() != before {
		s.t.Errorf("another node was started in place of %s: %+v", node, slots)
	}
	if version := s.on(node, "cat", "/sys/module/enflame/version"); strings.TrimSpace(version) != "1.0.0" {
		s.t.Errorf("on the node that is cut off the driver is %s", version)
	}
	_, err = s.NodesOn(s.ctx, node)
	check(s.t, err)
}

// managerKilled suspends the manager while it drains a node, until the drain is over, and
// then kills it, so that its next action is based on a stale decision.
func (s *stage) managerKilled(manager *corev1.Pod, node string, evicted *corev1.Pod) {
	s.t.Helper()
	process, err := harness.PodProcess(manager, "manager")
	check(s.t, err)
	check(s.t, syscall.Kill(process, syscall.SIGSTOP))
	s.eventually("the drain of "+node+" is over while the manager is stopped", func() error {
		if _, err := s.pod(evicted); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is there: %w", evicted.Name, err)
		}
		return nil
	})
	check(s.t, syscall.Kill(process, syscall.SIGKILL))
	s.eventually("the manager runs again", func() error { return s.managerBegan(manager, 1) })
}

// managerBegan returns nil if the manager's container has been restarted the given number
// of times, in the same pod.
func (s *stage) managerBegan(pod *corev1.Pod, times int) error {
	now, err := s.pod(pod)
	if err != nil {
		return err
	}
	if c := now.Status.ContainerStatuses[0]; now.UID != pod.UID || !ready(now) || int(c.RestartCount) != times {
		return fmt.Errorf("pod %s: ready %t, begun anew %d times", now.UID, ready(now), c.RestartCount)
	}
	return nil
}

// drainBegins waits until a pod of a node other than but is being evicted, and returns
// both.
func (s *stage) drainBegins(but string) (node string, evicted *corev1.Pod) {
	s.t.Helper()
	s.eventually("a pod is being evicted", func() error {
		for _, pod := range s.pods("default", "app", "training") {
			if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || pod.Spec.NodeName == but {
				continue
			}
			if op := s.upgrade(pod.Spec.NodeName).Status.Operation; op != nil && op.Task == pod.Spec.NodeName+"_node_evict" {
				node, evicted = pod.Spec.NodeName, &pod
				return nil
			}
		}
		return fmt.Errorf("none is")
	})
	return node, evicted
}

// endsWell waits until the victims have driver 2.0.0 and all cards are used again. It
// checks that one node at a time was down, and that of each victim exactly the pods that
// depend on its driver were deleted, once.
func (s *stage) endsWell(observer *harness.Observer, departures *harness.Departures) {
	s.t.Helper()
	s.eventually("the nodes have the new driver", func() error { return s.driverIs("2.0.0", victims...) })
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	var want, got []string
	for _, node := range victims {
		for _, owner := range []string{driverSet, pluginSet, exporterSet, gfdSet, "default/training"} {
			want = append(want, node+" "+owner)
		}
	}
	for _, left := range departures.Take() {
		owner := left.DaemonSet
		if owner == "" {
			owner = left.Pod
			if strings.HasPrefix(owner, "default/training") {
				owner = "default/training"
			}
		}
		got = append(got, left.Node+" "+owner)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("deleted pods (-want +got):\n%s", diff)
	}
}

// pod returns the current pod with the same name, even if it was replaced.
func (s *stage) pod(of *corev1.Pod) (*corev1.Pod, error) {
	var now corev1.Pod
	err := s.Client.Get(s.ctx, client.ObjectKeyFromObject(of), &now)
	return &now, err
}
