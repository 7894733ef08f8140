package nodes

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	renamedDriverSet = "renamed-gcu-driver"
	// watcherApp is the app of testdata/card-watcher.yaml.
	watcherApp = "card-watcher"
)

// driverIsRenamed: the driver of all nodes gets another name while all cards are in use. One node
// at a time is emptied, and its driver leaves under the old name and comes under the new one. The pods
// of somebody else's DaemonSet are removed only while the node's taint keeps them from coming back.
func (s *stage) driverIsRenamed() {
	s.kubectl("apply", "-f", "test/nodes/testdata/card-watcher.yaml")
	s.eventually("another DaemonSet uses a card on each node", func() error { return s.watches(nil) })
	watchers := s.pods("default", "app", watcherApp)
	// Those that a kubelet evicted stay, and have no card.
	training := slices.DeleteFunc(s.pods("default", "app", "training"), func(p corev1.Pod) bool { return hasEnded(&p) })
	s.settings(topsv1.AnnotationPaused+"=true", topsv1.AnnotationUpgradeOnly+"-", topsv1.AnnotationMaxUnavailable+"=1")
	s.kubectl("patch", "gr", grName, "--type=merge", "--patch", fmt.Sprintf(`{"spec":{"driver":{"name":%q}}}`, renamedDriverSet))
	s.eventually("the old DaemonSet is to leave", func() error {
		var ds appsv1.DaemonSet
		if err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: system, Name: driverSet}, &ds); err != nil {
			return err
		}
		if !daemonset.IsLeaving(&ds) {
			return fmt.Errorf("its pods are %+v", ds.Spec.Template.Spec)
		}
		return nil
	})
	c := s.watchCensus()
	s.settings(topsv1.AnnotationPaused + "-")
	s.eventually("the old DaemonSet is gone", func() error {
		err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: system, Name: driverSet}, &appsv1.DaemonSet{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	s.eventually("all nodes have the renamed driver, and are returned to service", s.isRenamed)
	s.eventually("all nodes offer their cards", s.cardsAreOffered)
	s.eventually("all cards are used again", s.trains)
	s.eventually("the other DaemonSet is back", func() error { return s.watches(watchers) })
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })

	c.check()
	s.renamedAfterTraining(training)
}

// watches returns nil if a pod of the other DaemonSet that is not one of before is Ready on each node.
func (s *stage) watches(before []corev1.Pod) error {
	on := 0
	for _, pod := range s.pods("default", "app", watcherApp) {
		if pod.DeletionTimestamp == nil && ready(&pod) && !contains(before, pod.UID) {
			on++
		}
	}
	if on != len(allNodes) {
		return fmt.Errorf("it runs on %d of %d nodes", on, len(allNodes))
	}
	return nil
}

func contains(pods []corev1.Pod, uid types.UID) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == uid })
}

// isRenamed returns nil if the driver runs on all nodes under its new name, and no node has a mark of
// an upgrade.
func (s *stage) isRenamed() error {
	tag := s.gr().Spec.Driver.Version
	for _, node := range allNodes {
		if err := s.runs(renamedDriverSet, node, tag); err != nil {
			return err
		}
		if err := s.givenBack(node); err != nil {
			return err
		}
	}
	return nil
}

// renamedAfterTraining checks that all training pods were replaced, and no driver while a card was in
// use.
func (s *stage) renamedAfterTraining(before []corev1.Pod) {
	s.t.Helper()
	for _, pod := range s.pods("default", "app", "training") {
		if contains(before, pod.UID) {
			s.t.Errorf("pod %s was not replaced although its driver was", pod.Name)
		}
	}
	for _, pod := range s.pods(system, nameLabel, renamedDriverSet) {
		// It fails while a card is in use.
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			s.t.Errorf("driver pod %s was restarted %d times", pod.Name, restarts)
		}
	}
	want := versionOf(s.gr().Spec.Driver.Version)
	for _, node := range allNodes {
		if version := strings.TrimSpace(s.on(node, "cat", "/sys/module/enflame/version")); version != want {
			s.t.Errorf("node %s has driver %q", node, version)
		}
	}
}

// census watches nodes and pods while a driver is renamed. The placeholders of the old DaemonSet never
// become Ready, so harness.Observer cannot.
type census struct {
	*stage
	mu sync.Mutex
	// cordoned are the nodes that take no pods.
	cordoned map[string]bool
	// drivers are the driver's pods on a node that have not ended, under both names; ready those of them
	// that are Ready; training are its training pods.
	drivers, ready, training harness.PodsByNode
	// left are the pods of the old driver and the other DaemonSet whose deletion was seen, and
	// nodes those of the drivers, in order.
	left  map[types.UID]bool
	nodes []string
	// wrong is what must not be.
	wrong []string
}

// watchCensus watches until the story ends.
func (s *stage) watchCensus() *census {
	s.t.Helper()
	c := &census{stage: s, cordoned: map[string]bool{}, left: map[types.UID]bool{},
		drivers: harness.PodsByNode{}, ready: harness.PodsByNode{}, training: harness.PodsByNode{}}
	check(s.t, harness.WatchNodes(s.ctx, s.Cluster, c.seeNode))
	_, err := harness.Observe(s.ctx, s.Cluster, "", c.seePod)
	check(s.t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = nil // while the list was read
	if c.ready.Occupied() != len(allNodes) || len(c.cordoned) > 0 {
		s.t.Fatalf("the drivers are %v, cordoned are %v", c.ready, c.cordoned)
	}
	return c
}

func (c *census) seeNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.cordoned, node.Name); node.Spec.Unschedulable {
		c.cordoned[node.Name] = true
	}
	if len(c.cordoned) > 1 {
		c.wrong = append(c.wrong, fmt.Sprintf("%d nodes were cordoned at once: %v", len(c.cordoned), c.cordoned))
	}
}

func (c *census) seePod(pod *corev1.Pod, gone bool) {
	node, name := pod.Spec.NodeName, pod.Labels[nameLabel]
	if node == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	leaves := gone || pod.DeletionTimestamp != nil
	switch app := pod.Labels["app"]; {
	case name == driverSet, name == renamedDriverSet:
		if name == driverSet && leaves {
			c.driverLeaves(pod)
		}
		// The scheduler forgets a pod once its containers have ended, before the pod is gone.
		c.drivers.Set(node, pod.UID, !gone && !hasEnded(pod))
		c.ready.Set(node, pod.UID, !leaves && ready(pod))
		if len(c.drivers[node]) > 1 {
			c.wrong = append(c.wrong, "two drivers were on node "+node+" at once")
		}
		if with := c.ready.Occupied(); with < len(allNodes)-1 {
			c.wrong = append(c.wrong, fmt.Sprintf("only %d nodes had a driver that is Ready", with))
		}
	case app == "training":
		c.training.Set(node, pod.UID, !gone && !hasEnded(pod))
	case app == watcherApp && leaves && !c.left[pod.UID]:
		c.left[pod.UID] = true
		c.isClosed(pod)
	}
}

// driverLeaves records the node of the old driver's pod, once, which must be empty and closed.
func (c *census) driverLeaves(pod *corev1.Pod) {
	if c.left[pod.UID] {
		return
	}
	c.left[pod.UID] = true
	c.nodes = append(c.nodes, pod.Spec.NodeName)
	if n := len(c.training[pod.Spec.NodeName]); n > 0 {
		c.wrong = append(c.wrong, fmt.Sprintf("the driver of node %s left under %d training pods", pod.Spec.NodeName, n))
	}
	c.isClosed(pod)
}

// isClosed reads the node of a pod that leaves, which must be cordoned and have the taint of a driver's
// upgrade: it has both until the upgrade is over.
func (c *census) isClosed(pod *corev1.Pod) {
	var node corev1.Node
	err := c.Client.Get(c.ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node)
	if err != nil || !node.Spec.Unschedulable ||
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == topsv1.TaintDriverUpgrade }) {
		c.wrong = append(c.wrong, fmt.Sprintf("pod %s left node %s, which was cordoned: %t, with taints %v: %v", pod.Name, node.Name, node.Spec.Unschedulable, node.Spec.Taints, err))
	}
}

// check fails if more than one node was without a driver or cordoned at once, or a pod left a node that
// was not ready for it.
func (c *census) check() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, wrong := range c.wrong {
		c.t.Error(wrong)
	}
	if got := slices.Sorted(slices.Values(c.nodes)); !slices.Equal(got, allNodes) {
		c.t.Errorf("the old driver left %v, want each node once", c.nodes)
	}
	if want := 2 * len(allNodes); len(c.left) != want {
		c.t.Errorf("%d pods of the old driver and the other DaemonSet left, want %d", len(c.left), want)
	}
}

// hasEnded reports whether all containers of a pod have ended for good.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
