package daemonupdater

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// pullingCluster returns a cluster with a new image, and agents that pull it on all nodes.
func pullingCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "r/driver:2"}}
	})
	for _, name := range []string{"a", "b", "c"} {
		u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.api.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		u.Status.Agent = &topsv1.AgentStatus{Capabilities: upgradeplan.Capabilities()}
		if err := c.api.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// asked returns the nodes whose agents were asked for images, with their NodeUpgrades.
func (c *cluster) asked() map[string]*topsv1.NodeUpgrade {
	c.t.Helper()
	var list topsv1.NodeUpgradeList
	if err := c.api.List(context.Background(), &list); err != nil {
		c.t.Fatal(err)
	}
	asked := map[string]*topsv1.NodeUpgrade{}
	for i := range list.Items {
		if len(list.Items[i].Spec.Prepulls) > 0 {
			asked[list.Items[i].Name] = &list.Items[i]
		}
	}
	return asked
}

// answer reports the result of the only prepull of a node.
func (c *cluster) answer(u *topsv1.NodeUpgrade, state topsv1.HostTaskState, reason string) {
	c.t.Helper()
	p := &u.Spec.Prepulls[0]
	u.Status.Host = &topsv1.HostReport{Results: []topsv1.HostTaskResult{{Operation: p.ID, Task: u.Name + "_pod_prepull",
		Attempt: p.Attempt, State: state, Reason: reason, Message: "no such image"}}}
	if err := c.api.Status().Update(context.Background(), u); err != nil {
		c.t.Fatal(err)
	}
}

func TestABadImageCostsNoNodeItsPod(t *testing.T) {
	c := pullingCluster(t)
	for nodes := range 3 { // one after the other is asked, and cannot pull it
		c.mustReconcile()
		c.mustReconcile()
		asked := c.asked()
		if len(asked) != nodes+1 {
			t.Fatalf("asked %d nodes, want %d", len(asked), nodes+1)
		}
		for _, u := range asked {
			if u.Status.Host == nil {
				c.answer(u, topsv1.HostTaskFailed, topsv1.ReasonPullFailed)
			}
		}
	}
	c.mustReconcile()
	c.now = c.now.Add(50 * time.Second)
	c.mustReconcile()
	c.wantDeletions()
	if r := c.stored().Status; r.Pending != 3 || r.Waiting[0].Reason != topsv1.ReasonPrepullFailed || len(r.InFlight) != 0 {
		t.Errorf("status %+v", r)
	}
	c.now = c.now.Add(10 * time.Second)
	c.mustReconcile()
	for name, u := range c.asked() {
		if u.Spec.Prepulls[0].Attempt == 2 {
			c.answer(u, topsv1.HostTaskDone, "Pulled")
			c.mustReconcile()
			c.wantDeletions("driver-" + name)
			return
		}
	}
	t.Error("no pull was repeated")
}

func TestAnAgentThatDoesNotAnswerIsWaitedForOnlyShortly(t *testing.T) {
	c := pullingCluster(t)
	c.mustReconcile()
	if next := c.mustReconcile(); next > 2*time.Minute || next == 0 {
		t.Errorf("decides again after %s", next)
	}
	c.wantDeletions()
	c.now = c.now.Add(2 * time.Minute)
	c.mustReconcile()
	if len(c.deletions) != 1 || c.stored().Status.NotPrepulledNodes == 0 {
		t.Errorf("deleted %v; status %+v", c.deletions, c.stored().Status)
	}
}

func TestANodeGoesOnIfItsAgentCannotBeAsked(t *testing.T) {
	c := pullingCluster(t)
	c.onOperationWrite = func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodeupgrades"}, "", errors.New("policy says no"))
	}
	if next := c.mustReconcile(); next > time.Second || len(c.deletions) != 0 {
		t.Errorf("decides again after %s, deleted %v", next, c.deletions)
	}
	c.mustReconcile()
	if len(c.deletions) != 1 {
		t.Errorf("deleted %v", c.deletions)
	}
}
