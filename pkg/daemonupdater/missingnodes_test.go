package daemonupdater

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/test/fixture"
)

func (c *cluster) queuedNodes() []string {
	var names []string
	for _, s := range c.stored().Status.Queued {
		names = append(names, s.Node)
	}
	return names
}

// startsAnew replaces the manager by another one, which has nothing but its caches.
func (c *cluster) startsAnew() {
	c.reconciler.written, c.reconciler.fleets, c.reconciler.attempts = map[observed.Group]writtenRollout{}, map[observed.Group]*pass.Fleet{}, deletion.AllAttempts{}
}

// TestAQueuedNodeThatTheCacheDoesNotShowIsLookedFor: the manager that queued it may be about to
// start it, so its slot is not given to another node before it is gone.
func TestAQueuedNodeThatTheCacheDoesNotShowIsLookedFor(t *testing.T) {
	tests := []struct {
		name    string
		happens func(c *cluster, queued string)
		kept    bool
		again   bool // decides again at once
		fails   bool
	}{
		{"and keeps its slot while the API server has it", func(*cluster, string) {}, true, true, false},
		{"and gives its slot back when it is gone", func(c *cluster, queued string) {
			if err := c.api.Delete(context.Background(), fixture.Node(queued)); err != nil {
				t.Fatal(err)
			}
		}, false, false, false},
		{"and gives its slot back when another node has its name", func(c *cluster, queued string) {
			if err := c.api.Delete(context.Background(), fixture.Node(queued)); err != nil {
				t.Fatal(err)
			}
			another := fixture.Node(queued)
			another.UID = "another"
			c.create(another)
		}, false, false, false},
		{"and keeps its slot when nobody knows", func(c *cluster, _ string) {
			c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, ok := object.(*corev1.Node); ok {
					return broken500
				}
				return w.Get(ctx, key, object, opts...)
			}})
		}, true, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			c.mustReconcile()
			queued := c.queuedNodes()
			if len(queued) != 1 {
				t.Fatalf("queued %v, want one node", queued)
			}
			tt.happens(c, queued[0])
			c.staleNode = queued[0]
			c.startsAnew()
			after, err := c.reconcile()
			if !tt.kept && !tt.fails && after == retryStaleCache {
				after, err = c.reconcile() // its pod has been fenced
			}
			if (err != nil) != tt.fails || (after == retryStaleCache) != tt.again {
				t.Errorf("decides again after %s, error %v", after, err)
			}
			if kept := slices.Equal(c.queuedNodes(), queued); kept != tt.kept {
				t.Errorf("queued %v, was %v, want it kept: %v", c.queuedNodes(), queued, tt.kept)
			}
		})
	}
}

// TestAReleasedRolloutIsNotDeletedWhileAQueuedNodeIsNotSeen: a deletion on that node may still be
// under way.
func TestAReleasedRolloutIsNotDeletedWhileAQueuedNodeIsNotSeen(t *testing.T) {
	c := newCluster(t, unchanged)
	c.mustReconcile()
	queued := c.queuedNodes()[0]
	live := c.liveDriver()
	delete(live.Annotations, topsv1.AnnotationUpdateStrategy)
	c.update(live)
	c.staleNode = queued
	c.startsAnew()
	for range 3 {
		c.mustReconcile()
	}
	if c.stored().Name == "" {
		t.Error("the rollout is deleted, want it kept until the cache shows the node")
	}
	c.staleNode = ""
	for range 3 {
		c.mustReconcile()
	}
	if c.stored().Name != "" {
		t.Error("the rollout is still there")
	}
}

// TestASlotStaysWhileTheCacheLacksItsNode: a node whose pod was deleted and whose cache is behind is
// out of service, although no live pod on it says so.
func TestASlotStaysWhileTheCacheLacksItsNode(t *testing.T) {
	c := newCluster(t, unchanged)
	c.mustReconcile()
	started := c.slots()
	if len(started) != 1 || len(c.deletions) != 1 {
		t.Fatalf("started %v, deleted %v, want one node", started, c.deletions)
	}
	c.staleNode = started[0]
	c.startsAnew()
	for range 3 {
		if after := c.mustReconcile(); after != retryStaleCache {
			t.Errorf("decides again after %s, want %s", after, retryStaleCache)
		}
	}
	if got := c.slots(); !slices.Equal(got, started) || len(c.deletions) != 1 {
		t.Errorf("in flight %v, deleted %v, want only %v", got, c.deletions, started)
	}
}

// The Node objects of a pool go before their pods: all of these are fenced in one pass, after one list.
func TestThePodsThatOutliveTheirNodesAreFencedTogether(t *testing.T) {
	c := newCluster(t, twoAtATime)
	c.onDelete = func(string) error { return apierrors.NewTooManyRequests("busy", 1) } // it may still happen later
	if _, err := c.reconcile(); err == nil || len(c.slots()) != 2 {
		t.Fatalf("slots %v, %v, want two and deletions that failed", c.slots(), err)
	}
	lists := 0
	c.live(interceptor.Funcs{List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			lists++
		}
		return w.List(ctx, list, opts...)
	}})
	former := append(c.slots(), c.queuedNodes()...)
	for _, node := range former {
		if err := c.api.Delete(t.Context(), fixture.Node(node)); err != nil {
			t.Fatal(err)
		}
	}
	if after := c.mustReconcile(); after != retryStaleCache || lists != 1 {
		t.Errorf("decides again after %s, want %s; %d lists of pods, want 1", after, retryStaleCache, lists)
	}
	for _, node := range former {
		pod := fixture.PodOn(c.driver, node, fixture.OldHash)
		if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool { return condition.Type == podreplace.Fenced }) {
			t.Errorf("the pod of %s is not fenced", node)
		}
	}
	c.now = c.now.Add(reportInterval)
	if c.mustReconcile(); len(c.slots())+len(c.queuedNodes()) != 0 || lists != 2 {
		t.Errorf("slots %v and %v, %d lists of pods, want no slots and one more list", c.slots(), c.queuedNodes(), lists)
	}
}

// A node that is tainted NoExecute leaves the group with its pod, which a late deletion could still hit when the taint is gone.
func TestThePodOfANodeThatLeavesIsFenced(t *testing.T) {
	c := newCluster(t, unchanged)
	c.mustReconcile()
	left := c.queuedNodes()[0]
	node := fixture.Node(left)
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	c.update(node)
	c.startsAnew()
	if after := c.mustReconcile(); after != retryStaleCache || !slices.Contains(c.queuedNodes(), left) {
		t.Errorf("decides again after %s with %v in the queue, want %s and %s", after, c.queuedNodes(), retryStaleCache, left)
	}
	pod := fixture.PodOn(c.driver, left, fixture.OldHash)
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool { return condition.Type == podreplace.Fenced }) {
		t.Error("the pod is not fenced")
	}
	if c.mustReconcile(); slices.Contains(c.queuedNodes(), left) {
		t.Errorf("%v are in the queue, want %s to have left", c.queuedNodes(), left)
	}
}

// The cache shows that a pod is gone, and not yet its successor, which was created before a taint came.
func TestAMemberIsLookedForWhereItSeemsToHaveLeft(t *testing.T) {
	c := newCluster(t, unchanged)
	confirm := func(node string) error {
		p := &pass.Pass{State: &observed.State{Members: []observed.Member{{DaemonSet: c.driver}}}}
		p.Decision.Vacated = []rollout.Slot{{Node: node, Members: []string{"kube-system/driver"}}}
		return fleetReader{Cluster: access.Cluster{Live: c.api}}.confirmNodesGone(t.Context(), p)
	}
	if err := confirm("a"); !errors.Is(err, podreplace.ErrChanged) {
		t.Errorf("a pod is there: %v, want %v", err, podreplace.ErrChanged)
	}
	node := fixture.Node("b")
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	c.update(node)
	if err := c.api.Delete(t.Context(), fixture.PodOn(c.driver, "c", fixture.OldHash)); err != nil {
		t.Fatal(err)
	}
	for node, why := range map[string]string{"b": "its pod does not stay", "c": "there is no pod", "d": "there is no node"} {
		if err := confirm(node); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
}
