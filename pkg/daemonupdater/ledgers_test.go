package daemonupdater

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/fixture"
)

// relations records the related objects of events, by reason.
type relations map[string][]string

// Eventf implements events.EventRecorder.
func (r relations) Eventf(_, related runtime.Object, _, reason, _, _ string, _ ...any) {
	of := related.(*topsv1.DaemonRollout)
	r[reason] = append(r[reason], of.Name+" "+of.ResourceVersion)
}

// Kubernetes aggregates events that differ only in their text, and shows the text of the first.
func TestAnEventIsNotTakenForTheOneBefore(t *testing.T) {
	c, related := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationPaused, "true") }), relations{}
	c.reconciler.Recorder = related
	for i, paused := range []string{"perhaps", "false", "perhaps"} {
		c.now = fixture.Epoch.Add(time.Duration(i) * time.Hour)
		ds := c.liveDriver()
		fixture.Annotate(ds, topsv1.AnnotationPaused, paused)
		c.update(ds)
		c.mustReconcile()
	}
	if got := related[daemonset.ReasonInvalidPaused]; len(got) != 2 || got[0] == got[1] {
		t.Errorf("events are about %v", related)
	}
}

// After two writes the cache may still show the state before the first: that is no change, and no
// ledger to act on.
func TestACacheThatIsTwoWritesBehindShowsNoNews(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationPaused, "true") })
	c.staleRollouts = true
	c.mustReconcile()
	var version string
	for i := 1; i <= 2; i++ {
		c.now = fixture.Epoch.Add(time.Duration(i) * reportInterval / 5)
		c.newRevision(fmt.Sprint("r", i), int64(10+i)) // another target is stored at once
		if after := c.mustReconcile(); after == retryStaleCache {
			t.Fatalf("write %d: decides again at once, want the last write to be remembered", i+1)
		}
		if now := c.stored().ResourceVersion; now == version {
			t.Fatalf("write %d was not made", i+1)
		} else {
			version = now
		}
	}
}

// newRevision acts as the DaemonSet controller and makes a revision the newest.
func (c *cluster) newRevision(hash string, number int64) {
	c.t.Helper()
	r := fixture.RevisionsOf(c.driver, hash)[0]
	r.Revision = number
	if err := c.api.Create(c.t.Context(), r); err != nil {
		c.t.Fatal(err)
	}
}
