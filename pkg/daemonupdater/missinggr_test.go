package daemonupdater

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// ofAGr makes the DaemonSet one of the gr "fleet", without operations.
func ofAGr(ds *appsv1.DaemonSet) { fixture.OfGcuResource(ds) }

// loseGr deletes the gr "fleet"; its DaemonSets still exist.
func (c *cluster) loseGr() {
	c.t.Helper()
	if err := c.api.Delete(c.t.Context(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}); err != nil {
		c.t.Fatal(err)
	}
}

// recreateGr gives the name of the gr to another one.
func (c *cluster) recreateGr() {
	c.loseGr()
	c.create(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-another"}})
}

// waitsFor returns the reason for which nodes wait, "" for none.
func (c *cluster) waitsFor() string {
	if waiting := c.stored().Status.Waiting; len(waiting) > 0 {
		return waiting[0].Reason
	}
	return ""
}

func TestNothingStartsWhenTheGcuResourceOfAGroupIsGone(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		c := newCluster(t, ofAGr)
		c.loseGr()
		c.mustReconcile()
		c.wantDeletions()
		if got := c.waitsFor(); got != "Ending" || len(c.slots()) != 0 {
			t.Errorf("slots %v, the others wait for %q, want none and Ending", c.slots(), got)
		}
	})
	t.Run("deleted, with a prepared operation", func(t *testing.T) {
		c := preparedCluster(t)
		c.show(c.upgrade(), prepared)
		c.loseGr()
		c.mustReconcile()
		if op := c.upgrade().Spec.Operation; op.Granted || !op.Abort {
			t.Errorf("granted: %v, aborted: %v; want it withdrawn", op.Granted, op.Abort)
		}
	})
	t.Run("deleted, with an operation at work", func(t *testing.T) {
		c := preparedCluster(t)
		c.mustReconcile()
		c.show(c.upgrade(), func(op *topsv1.OperationStatus) { op.Granted = true })
		c.loseGr()
		c.mustReconcile()
		if op := c.upgrade().Spec.Operation; !op.Granted || !op.Abort {
			t.Errorf("granted: %v, aborted: %v; want it aborted: nothing releases the node when its gr is gone", op.Granted, op.Abort)
		}
		c.show(c.upgrade(), func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationAborted, "Aborted" })
		c.now = c.now.Add(moveInterval)
		c.mustReconcile()
		if status := c.stored().Status; len(status.InFlight) != 0 || len(status.Failed) != 0 {
			t.Errorf("slots %v, failed %v", status.InFlight, status.Failed)
		}
	})
	t.Run("deleted, with an operation that failed", func(t *testing.T) {
		c := preparedCluster(t)
		c.mustReconcile()
		c.show(c.upgrade(), func(op *topsv1.OperationStatus) {
			op.Granted, op.Held, op.Phase, op.Reason = true, true, topsv1.OperationFailed, "VerifyFailed"
		})
		c.mustReconcile()
		c.loseGr()
		c.mustReconcile()
		if op := c.upgrade().Spec.Operation; !op.Abort {
			t.Error("its node stays cordoned for good")
		}
	})
	// Nobody knows whose the DaemonSets are: there is no group.
	t.Run("another has its name", func(t *testing.T) {
		c := newCluster(t, ofAGr)
		c.recreateGr()
		c.mustReconcile()
		c.wantDeletions()
		if len(c.slots()) != 0 {
			t.Errorf("slots %v, want none", c.slots())
		}
	})
	t.Run("another has its name, with a prepared operation", func(t *testing.T) {
		c := preparedCluster(t)
		c.show(c.upgrade(), prepared)
		c.recreateGr()
		c.mustReconcile()
		if u := c.upgrade(); u != nil {
			t.Errorf("operation %+v; want it withdrawn", u.Spec.Operation)
		}
	})
}

func TestADaemonSetThatOnlyNamesAGcuResourceInALabelDoesNotNeedIt(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { ds.Labels = map[string]string{topsv1.LabelGcuResource: "fleet"} })
	c.mustReconcile()
	if len(c.deletions) != 1 {
		t.Errorf("deleted %v, want one pod: the DaemonSet is a group of its own", c.deletions)
	}
}
