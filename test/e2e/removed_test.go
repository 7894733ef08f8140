package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// crew watches the pods of a component, under all its names.
type crew struct {
	*stage
	mu sync.Mutex
	// runs are the pods that run on a node, ready those of them that are Ready.
	runs, ready harness.PodsByNode
	// beside are nodes on which two ran at once; fewest is the smallest number of nodes with a Ready
	// pod, ending and most the current and the largest number of pods that are being deleted.
	beside map[string]bool
	fewest int
	ending harness.PodsByNode
	most   int
}

func (s *stage) watchCrew(ctx context.Context, t *testing.T, names ...string) *crew {
	t.Helper()
	c := &crew{stage: s, runs: harness.PodsByNode{}, ready: harness.PodsByNode{}, beside: map[string]bool{}, ending: harness.PodsByNode{}}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app.kubernetes.io/name", Operator: metav1.LabelSelectorOpIn, Values: names}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Observe(ctx, s.Cluster, selector.String(), c.see); err != nil {
		t.Fatal(err)
	}
	c.reset()
	return c
}

func (c *crew) see(pod *corev1.Pod, gone bool) {
	node := pod.Spec.NodeName
	if node == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := slices.ContainsFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue
	})
	c.runs.Set(node, pod.UID, !gone)
	c.ready.Set(node, pod.UID, !gone && ready && pod.DeletionTimestamp == nil)
	c.beside[node] = c.beside[node] || len(c.runs[node]) > 1
	c.ending.Set(node, pod.UID, !gone && pod.DeletionTimestamp != nil)
	c.fewest, c.most = min(c.fewest, c.ready.Occupied()), max(c.most, c.ending.Occupied())
}

func (c *crew) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fewest = c.ready.Occupied()
}

// check fails if two pods ever ran beside each other, or fewer nodes had a Ready one than least.
func (c *crew) check(t *testing.T, least int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, beside := range c.beside {
		if beside {
			t.Errorf("two pods of the component ran on node %s at once", node)
		}
	}
	if c.most > 1 {
		t.Errorf("%d pods were being deleted at one time", c.most)
	}
	if c.fewest < least {
		t.Errorf("only %d nodes had a Ready pod at one time, want %d", c.fewest, least)
	}
}

// gone waits until a DaemonSet does not exist.
func (s *stage) gone(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, &appsv1.DaemonSet{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading DaemonSet %s: %w", name, err)
		}
		return fmt.Errorf("DaemonSet %s is still there", name)
	})
}

// patch changes the spec of a gr.
func (s *stage) patch(ctx context.Context, t *testing.T, gr, spec string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))
	if err := s.Client.Patch(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr}}, patch); err != nil {
		t.Fatal(err)
	}
}

// A component is renamed, renamed back half way, renamed again, and removed, each node by node.
func TestAComponentIsRenamedAndRemovedNodeByNode(t *testing.T) {
	s, ctx := enter(t)
	gr, old, young := s.name("named"), s.name("old"), s.name("young")
	s.create(ctx, t, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr, Annotations: rolling("1")},
		Spec: topsv1.GcuResourceSpec{GFD: s.component(old, "v1")}})
	running := func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ObservedGeneration == gr.Generation
	}
	s.shows(ctx, t, gr, "deployed", running)
	c := s.watchCrew(ctx, t, old, young)

	s.patch(ctx, t, gr, fmt.Sprintf(`{"gfd":{"name":%q}}`, young))
	s.eventually(ctx, t, func() error {
		if n := len(s.podsOf(ctx, t, young)); n < stageNodes {
			return fmt.Errorf("%d pods of the successor exist", n)
		}
		return nil
	})
	before := s.podsOf(ctx, t, old)
	s.patch(ctx, t, gr, fmt.Sprintf(`{"gfd":{"name":%q}}`, old))
	s.gone(ctx, t, young)
	s.shows(ctx, t, gr, "back", running)
	if left := survivors(before, s.podsOf(ctx, t, old)); left < stageNodes-3 {
		t.Errorf("going back half way left %d of %d pods alone", left, len(before))
	}

	s.patch(ctx, t, gr, fmt.Sprintf(`{"gfd":{"name":%q}}`, young))
	s.gone(ctx, t, old)
	s.shows(ctx, t, gr, "renamed", running)
	c.check(t, stageNodes-1)

	held := s.nodes[3]
	s.gcu(ctx, t, s.Kubeconfig, 0, nil, "hold", held)
	s.patch(ctx, t, gr, `{"gfd":{"notDeploy":true}}`)
	s.eventually(ctx, t, func() error { return c.runOn(held) })
	s.gcu(ctx, t, s.Kubeconfig, 0, nil, "release", held)
	s.gone(ctx, t, young)
	s.eventually(ctx, t, func() error { return c.runOn() })
	c.check(t, 0)
}

// A driver leaves under its old name and comes under the new one in one operation of each node, whose
// pods with GCUs are evicted; then it leaves for good.
func TestADriverIsRenamedAndRemovedOnEmptiedNodes(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	d := s.newDrivers(ctx, t, "called", soon())
	d.training(ctx, 3, 2)
	old, young := d.name+"-driver", s.name("young-driver")
	c := s.watchCrew(ctx, t, old, young)
	s.patch(ctx, t, d.name, fmt.Sprintf(`{"driver":{"name":%q}}`, young))
	s.gone(ctx, t, old)
	d.reaches(ctx, "complete", complete)
	d.givenBack(ctx)
	c.check(t, stageNodes-1)
	for _, node := range s.nodes {
		d.hasHistory(ctx, node)
	}
	s.shows(ctx, t, d.name, "renamed", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ObservedGeneration == gr.Generation
	})

	s.patch(ctx, t, d.name, `{"driver":{"notDeploy":true}}`)
	s.gone(ctx, t, young)
	d.givenBack(ctx)
	s.eventually(ctx, t, func() error { return c.runOn() })
	c.check(t, 0)
	for _, node := range s.nodes {
		d.hasHistory(ctx, node)
	}
}

// runOn returns an error unless pods run on the given nodes only.
func (c *crew) runOn(nodes ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, pods := range c.runs {
		if len(pods) > 0 != slices.Contains(nodes, node) {
			return fmt.Errorf("%d pods run on node %s", len(pods), node)
		}
	}
	return nil
}
