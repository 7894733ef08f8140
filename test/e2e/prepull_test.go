package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// A plain annotated DaemonSet gets an image that the registry does not have: every node keeps its pod, and the
// rollout says why. With an image that it has, each node gets its pod once the image is there.
func TestABadImageCostsNoNodeItsPod(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	s.awaitPullingAgents(ctx, t)
	f := newDaemonSet(ctx, t, s, "prepull", rolling("2"))
	before := f.uids(ctx)
	o := f.observe(ctx)
	for _, node := range s.nodes {
		s.agents.Host(node).Lacks("app:bad")
	}

	f.setImage(ctx, "app:bad")
	newest := f.newestRevision(ctx)
	r := f.reaches(ctx, "waiting for the image", func(st *topsv1.DaemonRolloutStatus) bool {
		return len(st.Targets) == 1 && st.Targets[0].Hash == newest && st.Pending == stageNodes && reasonOf(st, topsv1.RolloutProgressing) == topsv1.ReasonPrepullFailed
	})
	if r.Status.Touched != 0 || len(r.Status.InFlight) != 0 || r.Status.NotPrepulledNodes != 0 || !maps.Equal(before, f.uids(ctx)) {
		t.Errorf("nodes were touched: %+v", r.Status)
	}

	f.setImage(ctx, "app:2")
	f.complete(ctx, "app:2", stageNodes)
	for _, node := range s.nodes {
		if !s.agents.Host(node).Pulled("app:2") {
			t.Errorf("node %s got its pod without its image", node)
		}
	}
	atMost(t, o, 2)
}

// awaitPullingAgents waits until the operator can ask every node agent for images.
func (s *stage) awaitPullingAgents(ctx context.Context, t *testing.T) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		for _, node := range s.nodes {
			var u topsv1.NodeUpgrade
			if err := s.Client.Get(ctx, client.ObjectKey{Name: node}, &u); err != nil {
				return err
			}
			if u.Status.Agent == nil || !slices.Contains(u.Status.Agent.Capabilities, upgradeplan.PrepullLight) {
				return fmt.Errorf("the agent of node %s is not there: %+v", node, u.Status.Agent)
			}
		}
		return nil
	})
}
