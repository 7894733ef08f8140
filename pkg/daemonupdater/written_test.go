package daemonupdater

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// After two writes the cache may still show what was there before the first:
// that is no news, and no ledger to act on.
func TestACacheThatIsTwoWritesBehindShowsNoNews(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { annotate(ds, topsv1.AnnotationPaused, "true") })
	c.staleRollouts = true
	c.mustReconcile()
	var version string
	for i := 1; i <= 2; i++ {
		c.now = epoch.Add(time.Duration(i) * reportInterval / 5)
		c.newRevision(fmt.Sprint("r", i), int64(10+i)) // another target is stored at once
		if after := c.mustReconcile(); after == retryAhead {
			t.Fatalf("write %d: decides again at once, want the last write to be remembered", i+1)
		}
		if now := c.stored().ResourceVersion; now == version {
			t.Fatalf("write %d was not made", i+1)
		} else {
			version = now
		}
	}
}

// newRevision is the DaemonSet controller, which makes a revision the newest.
func (c *cluster) newRevision(hash string, number int64) {
	c.t.Helper()
	r := revisionsOf(c.driver, hash)[0]
	r.Revision = number
	if err := c.api.Create(c.t.Context(), r); err != nil {
		c.t.Fatal(err)
	}
}
