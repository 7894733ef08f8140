package e2e

import (
	"strconv"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/story"
)

// TestStory tells the story of the demo; a step that does not come out fails it.
func TestStory(t *testing.T) {
	t.Parallel()
	ctx := testContext(t, 8*time.Minute)
	cluster := startCluster(ctx, t, "--nodes", strconv.Itoa(story.Nodes), "--zones", "2")
	tale := story.New(cluster, story.NewNarrator(testWriter{t}, false))
	if err := tale.Tell(ctx); err != nil {
		t.Error(err)
	}
	if err := tale.Stop(); err != nil {
		t.Error(err)
	}
}
