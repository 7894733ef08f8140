package e2e

import (
	"context"
	"os"
	"testing"

	demo "github.com/topsops/gcu-operator/test/story"
)

// TestStory runs the demo's story, and checks that everything it deployed is removed.
// Contract 99.
func TestStory(t *testing.T) {
	s, ctx := enterAlone(t)
	scenario := demo.New(s.Cluster, demo.NewNarrator(os.Stderr, false))
	t.Cleanup(func() {
		if err := scenario.Stop(); err != nil {
			t.Error(err)
		}
		for i := range demo.Nodes {
			s.forget(context.WithoutCancel(ctx), t, nodeName(i))
		}
	})
	if err := scenario.Tell(ctx); err != nil {
		t.Fatal(err)
	}
	s.kubectl(ctx, t, "delete", "-f", "examples/gcu-resource-driver.json", "-f", "test/story/upgrade-policy.yaml", "-f", "test/story/training.yaml", "--timeout=2m")
	s.nothingLeft(ctx, t)
}
