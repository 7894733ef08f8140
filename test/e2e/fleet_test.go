package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// moreOffline: half of the nodes are offline under a budget of one; the others
// are upgraded, and the half as it comes back.
func (s *scenarios) moreOffline(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "offline", rolling("1"))
	off := []string{"node-0001", "node-0003", "node-0005"}
	if _, err := s.NodesOff(ctx, off...); err != nil {
		t.Fatal(err)
	}
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	r := f.reaches(ctx, "done where it can be", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated == 3 && st.SkippedNodes == 3 && reasonOf(st, topsv1.RolloutProgressing) == "CompleteExceptOffline"
	})
	for i, skipped := range r.Status.Skipped {
		if skipped.Node != off[i] || skipped.Reason != "NodeOffline" || skipped.Since.IsZero() {
			t.Errorf("skipped %+v, want %s because it is offline, with since when", skipped, off[i])
		}
	}
	if _, err := s.NodesOn(ctx, off...); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", scenarioNodes)
	if most := o.Most(); most > 1 {
		t.Errorf("%d nodes were down at once, allowed is 1", most)
	}
	if replaced := o.Replaced(); replaced != scenarioNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, scenarioNodes)
	}
}

// nodeObjectDeleted: a node vanishes in the middle and comes back as a new one
// of the same name.
func (s *scenarios) nodeObjectDeleted(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "vanish", rolling("1"))
	var node corev1.Node
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "node-0004"}, &node); err != nil {
		t.Fatal(err)
	}
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "started", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.InFlight) > 0 })
	if err := s.Client.Delete(ctx, &node); err != nil {
		t.Fatal(err)
	}
	f.reaches(ctx, "done on the nodes left", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Total == scenarioNodes-1 && st.Updated == scenarioNodes-1
	})
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity}}
	if err := s.Client.Create(ctx, again); err != nil {
		t.Fatal(err)
	}
	if err := s.agents.Restart(ctx, s.Cluster, node.Name); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", scenarioNodes)
}

// kubectlRollout: restart, history and undo work on a controlled DaemonSet. An
// undo half-way, with a node in flight, replaces the pods of the new revision and
// leaves those alone that are at the old one still.
func (s *scenarios) kubectlRollout(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "undo", rolling("1"))
	if _, err := s.Kubectl(ctx, "rollout", "restart", "daemonset/undo"); err != nil {
		t.Fatal(err)
	}
	f.reaches(ctx, "restarted", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Touched) == scenarioNodes && int(st.Updated) == scenarioNodes
	})
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 3, 1)
	updated, left := f.uidsRunning(ctx, "app:2"), f.uidsRunning(ctx, "app:1")
	if len(updated) != 4 || len(left) != 2 {
		t.Fatalf("%d pods are at the new revision and %d at the old one, want 4 and 2", len(updated), len(left))
	}
	if history, err := s.Kubectl(ctx, "rollout", "history", "daemonset/undo"); err != nil || strings.Count(history, "<none>") < 3 {
		t.Errorf("history shows fewer than three revisions (%v):\n%s", err, history)
	}
	o.Reset()
	if _, err := s.Kubectl(ctx, "rollout", "undo", "daemonset/undo"); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:1", scenarioNodes)
	deletedExactly(t, o, updated)
	now := f.uidsRunning(ctx, "app:1")
	for uid := range left {
		if !now[uid] {
			t.Errorf("pod %s was at the old revision all the time and is gone", uid)
		}
	}
	atMost(t, o, 1)
}
