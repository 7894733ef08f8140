package e2e

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A Node object is deleted during a rollout and created again with the same name.
func TestANodeObjectVanishesAndComesBack(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "vanish", rolling("1"))
	f.halfWay(ctx, "app:2", 0, 1)
	r := f.reaches(ctx, "started", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.InFlight) == 1 })
	// A node with a slot would keep it until it counts as lost.
	var node corev1.Node
	if err := s.Client.Get(ctx, client.ObjectKey{Name: s.nodesWithout([]string{r.Status.InFlight[0].Node})[0]}, &node); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(ctx, &node); err != nil {
		t.Fatal(err)
	}
	f.setFree(ctx, "app:3")
	f.reaches(ctx, "done on the nodes left", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Total == stageNodes-1 && st.Updated == stageNodes-1
	})
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity}}
	if err := s.Client.Create(ctx, again); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:3", stageNodes)
}

// kubectl rollout restart, history and undo work on a controlled DaemonSet. An undo
// during a rollout, with a node in flight, replaces the pods of the new revision and
// keeps those still at the old one.
func TestKubectlRolloutRestartHistoryAndUndoWorkHalfWayToo(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "undo", rolling("1"))
	if _, err := s.Kubectl(ctx, "rollout", "restart", "daemonset/"+f.name); err != nil {
		t.Fatal(err)
	}
	f.reaches(ctx, "restarted", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Touched) >= stageNodes && int(st.Updated) == stageNodes
	})
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 3, 1)
	updated, left := f.uidsRunning(ctx, "app:2"), f.uidsRunning(ctx, "app:1")
	if len(updated) != 4 || len(left) != 2 {
		t.Fatalf("%d pods are at the new revision and %d at the old one, want 4 and 2", len(updated), len(left))
	}
	if history, err := s.Kubectl(ctx, "rollout", "history", "daemonset/"+f.name); err != nil || strings.Count(history, "<none>") < 3 {
		t.Errorf("history shows fewer than three revisions (%v):\n%s", err, history)
	}
	o.Reset()
	if _, err := s.Kubectl(ctx, "rollout", "undo", "daemonset/"+f.name); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:1", stageNodes)
	deletedExactly(t, o, updated)
	now := f.uidsRunning(ctx, "app:1")
	for uid := range left {
		if !now[uid] {
			t.Errorf("pod %s, which was at the old revision, is gone", uid)
		}
	}
	atMost(t, o, 1)
}

// newNode returns a simulated node that is like another.
func newNode(name string, like *corev1.Node) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(like.Labels), Annotations: like.Annotations},
		Status: corev1.NodeStatus{Allocatable: like.Status.Allocatable, Capacity: like.Status.Capacity, NodeInfo: like.Status.NodeInfo}}
	node.Labels[corev1.LabelHostname] = name
	return node
}
