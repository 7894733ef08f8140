package daemonupdater

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	c, related := newCluster(t, pausedFirst), relations{}
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
	c := newCluster(t, pausedFirst)
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

// taken stores a DaemonRollout of another group under the key of the gr "fleet": that of the
// DaemonSet "fleet" in the operator's namespace, with a slot.
func (c *cluster) taken() *topsv1.DaemonRollout {
	c.t.Helper()
	foreign := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet"},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: "fleet"}}}
	status := topsv1.DaemonRolloutStatus{Revision: "other", InFlight: []topsv1.NodeSlot{{Node: "gone", Revision: "other", Since: fixture.Ago(0)}}}
	if err := c.api.Create(c.t.Context(), foreign); err != nil {
		c.t.Fatal(err)
	}
	foreign.Status = status
	if err := c.api.Status().Update(c.t.Context(), foreign); err != nil {
		c.t.Fatal(err)
	}
	return c.stored()
}

func TestAGroupWhoseNameIsTakenIsBlockedAndTouchesNothing(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	foreign := c.taken()
	_, err := c.reconcile()
	want := "DaemonRollout gcu-system/fleet belongs to DaemonSet fleet, not to GcuResource fleet: rename one of them"
	if err == nil || err.Error() != want {
		t.Errorf("Reconcile: %v, want %s", err, want)
	}
	if diff := cmp.Diff([]string{"Warning RolloutNameTaken " + want}, c.eventTexts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(foreign, c.stored()); diff != "" || c.upgrade() != nil {
		t.Errorf("the other ledger (-before +after):\n%s, operation %v", diff, c.upgrade())
	}
}

func TestATakenNameIsReportedOnceUntilItIsFree(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	reconcileTwice := func() []string {
		_, _ = c.reconcile() // the error is that of the test above
		_, _ = c.reconcile()
		return c.eventTexts()
	}
	foreign := c.taken()
	if told := reconcileTwice(); len(told) != 1 {
		t.Errorf("events %v, want one", told)
	}
	if err := c.api.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile()
	if err := c.api.Delete(t.Context(), c.stored()); err != nil {
		t.Fatal(err)
	}
	c.startsAnew()
	c.taken()
	_ = c.eventTexts()
	if told := reconcileTwice(); len(told) != 1 {
		t.Errorf("events %v when it is taken again, want one", told)
	}
}

func TestAGroupWithoutAStrategyLeavesALedgerOfItsNameAlone(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) {
		ofTheFleet(ds)
		delete(ds.Annotations, topsv1.AnnotationUpdateStrategy)
	})
	foreign := c.taken()
	c.mustReconcile()
	if diff := cmp.Diff(foreign, c.stored()); diff != "" {
		t.Errorf("the other ledger (-before +after):\n%s", diff)
	}
}
