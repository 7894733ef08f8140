package nodes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// cutDuringDrain: the cable of a node is pulled while its pods are being evicted. The
// node keeps its slot, nobody is started in its place, and what ends there while nobody
// can hear of it is not evicted again.
func (s *stage) cutDuringDrain() {
	departures := s.deployUnderSlowTraining()
	observer := s.observe()
	s.set("driver", "2.0.0")
	victim, evicted := s.drainBegins(map[string]bool{s.managerNode(): true})
	_, err := s.NodesOff(s.ctx, victim)
	check(s.t, err)
	// The cluster does not know that the pod has ended: the node was cut in its drain.
	if pod, err := s.pod(evicted); err != nil || pod.DeletionTimestamp == nil {
		s.t.Fatalf("pod %s is not being evicted: %v", evicted.Name, err)
	}
	s.eventually("the operation waits for the node, at its drain", func() error {
		op := s.upgrade(victim).Status.Operation
		if op == nil || op.Task != victim+"_node_evict" || op.Reason != "NodeOffline" {
			return fmt.Errorf("it is %+v", op)
		}
		return nil
	})
	before := observer.Replaced()
	s.eventually("on the node the pod has ended", func() error {
		tasks, err := s.OnNode(s.ctx, victim, nil, "ctr", "--namespace=k8s.io", "containers", "list")
		if err == nil && strings.Contains(tasks, "gcu-workload") {
			err = fmt.Errorf("there is %s", tasks)
		}
		return err
	})
	s.never("another node is begun in its place", func() bool {
		slots := s.rollout().Status.InFlight
		return len(slots) != 1 || slots[0].Node != victim || observer.Replaced() != before
	})
	if version := s.on(victim, "cat", "/sys/module/enflame/version"); strings.TrimSpace(version) != "1.0.0" {
		s.t.Errorf("on the node that is cut off the driver is %s", version)
	}
	_, err = s.NodesOn(s.ctx, victim)
	check(s.t, err)
	s.endsWell(observer, departures)
	s.driverWasNotForced()
	s.clear()
	s.nodesAreClean()
}

// managerKilled: the manager is killed while it drains a node: once right away, and once
// after it was stopped for so long that the drain it waits for was over twice.
func (s *stage) managerKilled() {
	departures := s.deployUnderSlowTraining()
	observer := s.observe()
	manager := s.managerPod()
	s.set("driver", "2.0.0")
	drained := map[string]bool{}
	for i := range 2 {
		node, evicted := s.drainBegins(drained)
		drained[node] = true
		process, err := harness.PodProcess(manager, "manager")
		check(s.t, err)
		if i == 1 {
			begin := time.Now()
			check(s.t, syscall.Kill(process, syscall.SIGSTOP))
			s.eventually("the drain of "+node+" is over while the manager is stopped", func() error {
				if _, err := s.pod(evicted); !apierrors.IsNotFound(err) {
					return fmt.Errorf("pod %s is there: %w", evicted.Name, err)
				}
				return nil
			})
			time.Sleep(time.Since(begin)) // as long again
		}
		check(s.t, syscall.Kill(process, syscall.SIGKILL))
		s.eventually("the manager runs again", func() error { return s.managerBegan(manager, i+1) })
	}
	s.endsWell(observer, departures)
	s.driverWasNotForced()
	check(s.t, s.managerBegan(manager, 2))
	s.clear()
	s.nodesAreClean()
}

// managerBegan tells what is missing until the manager's container has begun anew so many
// times, in the same pod.
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

// deployUnderSlowTraining deploys the gr with a driver, has all cards used by pods that
// need long to end, and begins to watch which pods go.
func (s *stage) deployUnderSlowTraining() *harness.Departures {
	s.t.Helper()
	s.deploy("AdvancedRollingUpdate", "brisk")
	s.kubectl("apply", "-f", "test/nodes/testdata/slow-training.yaml")
	s.eventually("all cards are used", s.trains)
	departures, err := harness.WatchDepartures(s.ctx, s.Cluster)
	check(s.t, err)
	return departures
}

// drainBegins waits until a pod of a node is being evicted, and returns both. Some nodes
// do not count.
func (s *stage) drainBegins(except map[string]bool) (node string, evicted *corev1.Pod) {
	s.t.Helper()
	node = s.nodeAt("node_evict", except)
	s.eventually("a pod of "+node+" is being evicted", func() error {
		for _, pod := range s.pods("default", "app", "training") {
			if pod.Spec.NodeName == node && pod.DeletionTimestamp != nil {
				evicted = &pod
				return nil
			}
		}
		return fmt.Errorf("none is")
	})
	return node, evicted
}

// endsWell waits until all nodes have driver 2.0.0 and all cards are used again, and
// checks that one node at a time was down, and which pods went: of each node those that
// use its driver, once.
func (s *stage) endsWell(observer *harness.Observer, departures *harness.Departures) {
	s.t.Helper()
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", "2.0.0") })
	s.eventually("all cards are used again", s.trains)
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	var want, got []string
	for _, node := range allNodes {
		for _, owner := range []string{driverSet, pluginSet, exporterSet, "enflame-gcu-feature-discovery", "default/training"} {
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
		s.t.Errorf("the pods that went (-want +got):\n%s", diff)
	}
}

// pod returns a pod as it is now, whichever has its name.
func (s *stage) pod(of *corev1.Pod) (*corev1.Pod, error) {
	var now corev1.Pod
	err := s.Client.Get(s.ctx, client.ObjectKeyFromObject(of), &now)
	return &now, err
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
			if op.Phase == topsv1.OperationRunning && op.Task == name+"_"+task {
				node = name
				return nil
			}
			at = append(at, op.Task)
		}
		return fmt.Errorf("they are at %q", at)
	})
	return node
}
