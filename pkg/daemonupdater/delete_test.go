package daemonupdater

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestOneFailingDeletionDoesNotKeepTheOthersBack(t *testing.T) {
	c := newCluster(t, twoAtATime)
	var first string
	c.onDelete = func(pod string) error {
		if first == "" {
			first = pod
			return broken500
		}
		return nil
	}
	_, err := c.reconcile()
	if err == nil || !strings.Contains(err.Error(), "deleting Pod kube-system/"+first) {
		t.Errorf("Reconcile: %v, want an error about pod %s", err, first)
	}
	if len(c.deletions) != 2 {
		t.Errorf("deletions asked for: %v, want two", c.deletions)
	}
	c.now = c.now.Add(retry.First)
	if _, err := c.reconcile(); err != nil || len(c.deletions) != 3 || c.deletions[2] != first {
		t.Errorf("deletions %v, %v, want only %s tried again", c.deletions, err, first)
	}
}

func TestAPodIsNotDeletedTwiceWhileTheCacheIsBehind(t *testing.T) {
	c := newCluster(t, unchanged)
	c.onDelete = func(string) error { return nil } // accepted, but not in the cache yet
	c.staleRollouts = true
	c.mustReconcile()
	if after := c.mustReconcile(); after == retryStaleCache {
		t.Error("decides again at once, want the last write to be remembered")
	}
	if len(c.deletions) != 1 || c.statusUpdates != 1 || len(c.slots()) != 1 {
		t.Errorf("%d deletions, %d status writes, slots %v, want one of each", len(c.deletions), c.statusUpdates, c.slots())
	}
}

func TestAPodThatIsGoneAlreadyIsNoError(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, answer := range map[string]error{
		"gone": apierrors.NewNotFound(pods, "x"), "a successor has its name": apierrors.NewConflict(pods, "x", errors.New("UID")),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			c.onDelete = func(string) error { return answer }
			if after := c.mustReconcile(); after == retryStaleCache {
				t.Error("decides again at once, want to wait for the cache")
			}
		})
	}
}

func TestANewManagerGoesOnWithTheStoredLedger(t *testing.T) {
	c := newCluster(t, unchanged)
	c.onDelete = func(string) error { return broken500 } // the manager dies between the ledger and the deletion
	if _, err := c.reconcile(); err == nil {
		t.Fatal("the deletion did not fail")
	}
	granted := c.slots()
	c.onDelete = nil
	c.reconciler.written, c.reconciler.attempts.Deletions = map[observed.Group]writtenRollout{}, deletion.Attempts{}
	c.mustReconcile()
	if diff := cmp.Diff(granted, c.slots()); diff != "" || len(c.deletions) != 2 || c.deletions[0] != c.deletions[1] {
		t.Errorf("deletions %v, slots (-before +after):\n%s", c.deletions, diff)
	}
}

func TestCountsAreNotReportedMoreOftenThanTheInterval(t *testing.T) {
	c := newCluster(t, pausedFirst)
	c.reconciler.Deadlines.Unavailable = 0 // a node is skipped at once
	c.mustReconcile()
	var n corev1.Node
	if err := c.api.Get(context.Background(), client.ObjectKey{Name: "c"}, &n); err != nil {
		t.Fatal(err)
	}
	fixture.Offline(&n)
	if err := c.api.Status().Update(context.Background(), &n); err != nil {
		t.Fatal(err)
	}
	const early = reportInterval / 4
	c.now = fixture.Epoch.Add(early)
	if after := c.mustReconcile(); after != reportInterval-early || c.stored().Status.SkippedNodes != 0 {
		t.Errorf("after %s: next pass after %s, %d skipped stored, want %s and 0", early, after, c.stored().Status.SkippedNodes, reportInterval-early)
	}
	c.now = fixture.Epoch.Add(reportInterval)
	if after := c.mustReconcile(); after != 0 || c.stored().Status.SkippedNodes != 1 {
		t.Errorf("after %s: next pass after %s, %d skipped stored, want never and 1", reportInterval, after, c.stored().Status.SkippedNodes)
	}
	if updates := c.statusUpdates; updates != 2 {
		t.Errorf("%d status writes, want 2", updates)
	}
	n.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := c.api.Status().Update(context.Background(), &n); err != nil {
		t.Fatal(err)
	}
	c.now = fixture.Epoch.Add(2 * reportInterval)
	if after := c.mustReconcile(); after != moveInterval-reportInterval || c.statusUpdates != 2 {
		t.Errorf("a second change within %s: next pass after %s, %d status writes", moveInterval, after, c.statusUpdates)
	}
}

func TestANewSlotIsStoredBeforeTheIntervalIsOver(t *testing.T) {
	c := newCluster(t, pausedFirst)
	c.mustReconcile()
	var live appsv1.DaemonSet
	if err := c.api.Get(context.Background(), client.ObjectKeyFromObject(c.driver), &live); err != nil {
		t.Fatal(err)
	}
	delete(live.Annotations, topsv1.AnnotationPaused)
	c.update(&live)
	c.now = fixture.Epoch.Add(reportInterval / 4)
	c.mustReconcile()
	if len(c.slots()) != 1 || len(c.deletions) != 1 {
		t.Errorf("slots %v, deletions %v, want one of each at once", c.slots(), c.deletions)
	}
}

func TestARolloutOfAnotherTargetIsNotTakenOver(t *testing.T) {
	c := newCluster(t, unchanged)
	taken := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver"},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "driver"}}}
	if err := c.api.Create(context.Background(), taken); err != nil {
		t.Fatal(err)
	}
	_, err := c.reconcile()
	const want = "DaemonRollout kube-system/driver belongs to GcuResource driver, not to DaemonSet driver: rename one of them"
	if err == nil || err.Error() != want {
		t.Errorf("Reconcile: %v, want %q", err, want)
	}
	c.wantDeletions()
}

func TestBadSettingsDeleteNothingAndAreSaid(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "1.5") })
	c.mustReconcile()
	c.wantDeletions()
	if got := fixture.Words(c.stored().Status)["Accepted"]; got != "False/InvalidMaxUnavailable" {
		t.Errorf("Accepted is %s, want False/InvalidMaxUnavailable", got)
	}
	want := []string{`Warning InvalidMaxUnavailable annotation topsops.enflame.com/max-unavailable is "1.5": ` +
		"set it to a whole number of nodes of at least 1, or to a percentage from 1% to 100%"}
	if diff := cmp.Diff(want, c.eventTexts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestOptingOutLeavesNoMarkBehind(t *testing.T) {
	c := newCluster(t, underOTA)
	c.mustReconcile()
	marked := func() (n int) {
		var pods corev1.PodList
		if err := c.api.List(context.Background(), &pods); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			if daemonset.NeedUpgrade(&pods.Items[i]) != nil {
				n++
			}
		}
		return n
	}
	if marked() != 3 || c.stored().Name == "" {
		t.Fatalf("%d pods marked, rollout %q, want three pods and a rollout under OTA", marked(), c.stored().Name)
	}
	c.optOut()
	c.mustReconcile()
	if marked() != 0 || c.stored().Name != "" {
		t.Errorf("%d pods marked, rollout %q, want none of both", marked(), c.stored().Name)
	}
	c.wantDeletions()
}

// optOut removes the strategy from the DaemonSet.
func (c *cluster) optOut() {
	c.t.Helper()
	var live appsv1.DaemonSet
	if err := c.api.Get(context.Background(), client.ObjectKeyFromObject(c.driver), &live); err != nil {
		c.t.Fatal(err)
	}
	delete(live.Annotations, topsv1.AnnotationUpdateStrategy)
	c.update(&live)
}

func TestARolloutIsDeletedWhenTheDeletionItNamesCannotHappenAnyMore(t *testing.T) {
	c := newCluster(t, unchanged)
	c.onDelete = func(string) error { return broken500 } // it may still happen later
	if _, err := c.reconcile(); err == nil || len(c.slots()) != 1 {
		t.Fatalf("slots %v, %v, want one and a deletion that failed", c.slots(), err)
	}
	c.optOut()
	if after := c.mustReconcile(); after != releaseInterval || c.stored().Name == "" {
		t.Errorf("rollout %q, decides again after %s, want it kept until the pod is seen fenced", c.stored().Name, after)
	}
	c.mustReconcile()
	if c.stored().Name != "" {
		t.Error("the rollout is still there when the pod is fenced")
	}
	c.wantDeletions(c.deletions[0])
}

// The pods of a DaemonSet that was created again under its name seem to be missing: the node may have them.
func TestAPodStaysWhileTheDaemonSetOfAMissingPodHasChanged(t *testing.T) {
	var d podDeleter // without a client: any call would panic
	decision := rollout.Plan(rollout.Input{Nodes: []rollout.Node{{Name: "a", Pods: []rollout.Pod{{Node: "a", UID: "pod"}, {Node: "a", Member: 1}}}}, Members: make([]rollout.Member, 2)})
	err := d.delete(t.Context(), &pass.Pass{Decision: decision}, []rollout.Pod{{Node: "a", UID: "pod"}}, map[int]bool{0: true, 1: false})
	if !errors.Is(err, podreplace.ErrChanged) {
		t.Errorf("delete: %v, want %v", err, podreplace.ErrChanged)
	}
}

func TestADaemonSetThatWasNeverAnnotatedIsLeftAlone(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { ds.Annotations = nil })
	c.mustReconcile()
	c.wantDeletions()
	if c.stored().Name != "" {
		t.Error("it has a DaemonRollout")
	}
}

func TestDeletedPodsAreRememberedUntilTheCacheShowsIt(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	mine, other := observed.GroupOf(driver), observed.Group{Kind: observed.KindGcuResource, Name: "fleet"}
	seen := func(pods ...*corev1.Pod) func(string, types.UID) bool {
		nodes, s := report.NewNodes(), &observed.State{Members: []observed.Member{{DaemonSet: driver}}}
		for name := range observed.SetNodes(s, nil, nil, [][]*corev1.Pod{pods}) {
			nodes.Set(s, name, fixture.Epoch)
		}
		return nodes.Runs
	}
	const uid = types.UID("uid-driver-a")
	tests := []struct {
		name  string
		prune func(d *deletion.Attempts)
		want  bool
	}{
		{"as long as the cache shows the pod alive", func(d *deletion.Attempts) { d.Prune(mine, seen(fixture.PodOn(driver, "a", fixture.OldHash))) }, true},
		{"not when the cache shows it terminating", func(d *deletion.Attempts) {
			d.Prune(mine, seen(fixture.Deleting(fixture.PodOn(driver, "a", fixture.OldHash))))
		}, false},
		{"not when the cache does not show it any more", func(d *deletion.Attempts) { d.Prune(mine, seen(fixture.PodOn(driver, "b", fixture.OldHash))) }, false},
		{"not when the group is gone", func(d *deletion.Attempts) { d.Prune(mine, nil) }, false},
		{"when another group is looked at", func(d *deletion.Attempts) { d.Prune(other, seen()) }, true},
		{"when another group is gone", func(d *deletion.Attempts) { d.Prune(other, nil) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d deletion.Attempts
			d.Prune(mine, seen()) // of a process that has not deleted anything yet
			if !d.IsDue(mine, uid, fixture.Epoch) {
				t.Fatal("remembers a pod that was not deleted")
			}
			d.Deleted(mine, "a", uid, fixture.Epoch)
			tt.prune(&d)
			if diff := cmp.Diff(tt.want, !d.IsDue(mine, uid, fixture.Epoch)); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
		})
	}
}
