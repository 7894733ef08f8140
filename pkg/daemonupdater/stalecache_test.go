package daemonupdater

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

// The tests in this file are about a cache that lags behind the API server.

// newest returns the ControllerRevision of a DaemonSet after fixture.NewHash.
func newest(ds *appsv1.DaemonSet, hash string) *appsv1.ControllerRevision {
	return fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash, hash)[2]
}

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	if err := c.api.Create(context.Background(), object); err != nil {
		c.t.Fatal(err)
	}
}

// live injects faults into the live reads of the reconciler.
func (c *cluster) live(faults interceptor.Funcs) {
	c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), faults)
}

func TestAPodAtARevisionTheCacheDoesNotShowYetIsNotDeleted(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "3") })
	third := newest(c.driver, "third")
	c.create(third)
	c.staleRevision = third.Name
	a := fixture.PodOn(c.driver, "a", "third") // it looks outdated
	if err := c.api.Delete(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	a.UID = "uid-driver-a-third"
	c.create(a)
	for range 2 {
		if after := c.mustReconcile(); after != retryStaleCache {
			t.Errorf("decides again after %s, want %s", after, retryStaleCache)
		}
		c.wantDeletions()
	}
	c.staleRevision = ""
	c.mustReconcile()
	c.wantDeletions("driver-b", "driver-c")
}

func TestRecheckLooksAtTheNewestLiveRevision(t *testing.T) {
	unseen := func(hash string, number int64) func(*cluster) {
		return func(c *cluster) {
			r := newest(c.driver, hash)
			r.Revision = number
			c.create(r)
			c.staleRevision = r.Name
		}
	}
	tests := []struct {
		name   string
		change func(*cluster)
		want   bool // a pod is deleted
	}{
		{"deletes when it is the one observed", func(*cluster) {}, true},
		{"deletes nothing when a newer one is there", unseen("third", 3), false},
		{"deletes nothing after a rollback that the cache does not show", func(c *cluster) {
			behind := fixture.RevisionsOf(c.driver, fixture.OldHash)[0] // the old revision has become the newest
			behind.Revision = 3
			c.live(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				list.(*appsv1.ControllerRevisionList).Items = []appsv1.ControllerRevision{*behind, *fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash)[1]}
				return nil
			}})
		}, false},
		{"deletes when one older than that is not in the cache", unseen("third", 0), true},
		{"deletes whatever revisions others with the same labels have", func(c *cluster) {
			other := c.driver.DeepCopy()
			other.Name, other.UID = "other", "uid-other"
			c.create(newest(other, "third"))
		}, true},
		{"deletes nothing when there is none", func(c *cluster) {
			c.live(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }})
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			tt.change(c)
			after := c.mustReconcile()
			if deleted := len(c.deletions) == 1; deleted != tt.want || (after != retryStaleCache) != tt.want {
				t.Errorf("deletions %v, decides again after %s, want a deletion: %v", c.deletions, after, tt.want)
			}
		})
	}
	t.Run("deletes nothing when it cannot be read", func(t *testing.T) {
		c := newCluster(t, unchanged)
		c.live(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return broken500
		}})
		if _, err := c.reconcile(); err == nil {
			t.Error("Reconcile has no error")
		}
		c.wantDeletions()
	})
}

// completeAtOld stores a ledger whose revision is that of the old pods, which were rendered from spec fleet-1 and are good.
func (c *cluster) completeAtOld() {
	c.t.Helper()
	g := observed.GroupOf(c.driver)
	key := g.RolloutKey("gcu-system")
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: g.Kind, Name: g.Name}}}
	c.create(dro)
	dro.Status.Revision = simRevisionOf("kube-system/driver=" + fixture.OldHash)
	dro.Status.LastKnownGood = fixture.GoodAt(dro.Status.Revision, fixture.OldHash)
	dro.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
	if err := c.api.Status().Update(c.t.Context(), dro); err != nil {
		c.t.Fatal(err)
	}
}

// The cache shows that the DaemonSet controller observed the new spec, but not its ControllerRevision: every node seems
// to be updated.
func TestASpecIsNotGoodBeforeItsRevisionIsConfirmed(t *testing.T) {
	for name, before := range map[string]func(*cluster){"after an earlier spec": (*cluster).completeAtOld, "in a new rollout": func(*cluster) {}} {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []string{"AdvancedRollingUpdate", "OTA"} {
				c := newCluster(t, func(ds *appsv1.DaemonSet) {
					fleetDriver(ds)
					fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, strategy)
				})
				before(c)
				want := c.stored().Status.LastKnownGood
				c.staleRevision = "driver-" + fixture.NewHash
				if after := c.mustReconcile(); after != retryStaleCache {
					t.Errorf("%s: decides again after %s, want %s", strategy, after, retryStaleCache)
				}
				c.staleRevision = ""
				c.mustReconcile()
				if diff := cmp.Diff(want, c.stored().Status.LastKnownGood); diff != "" {
					t.Errorf("%s: last known good revision (-want +got):\n%s", strategy, diff)
				}
			}
		})
	}
}

func TestTheTargetOfACompleteRolloutIsConfirmedOnce(t *testing.T) {
	c := newCluster(t, pausedFirst)
	reads := 0
	c.live(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*appsv1.DaemonSet); ok {
				reads++
			}
			return w.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads++
			return w.List(ctx, list, opts...)
		}})
	for range 3 {
		c.now = c.now.Add(reportInterval)
		c.mustReconcile()
	}
	if reads != 2 {
		t.Errorf("%d live reads in three passes, want 2: the DaemonSet and its ControllerRevisions", reads)
	}
}

func pausedFirst(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationPaused, "true") }

// goOn removes the pause.
func (c *cluster) goOn() {
	c.t.Helper()
	live := c.liveDriver()
	delete(live.Annotations, topsv1.AnnotationPaused)
	c.update(live)
}

// liveDriver returns the DaemonSet in the API server.
func (c *cluster) liveDriver() *appsv1.DaemonSet {
	c.t.Helper()
	var live appsv1.DaemonSet
	if err := c.api.Get(context.Background(), client.ObjectKeyFromObject(c.driver), &live); err != nil {
		c.t.Fatal(err)
	}
	return &live
}

func (c *cluster) deleteRollout() {
	c.t.Helper()
	if err := c.api.Delete(context.Background(), c.stored()); err != nil {
		c.t.Fatal(err)
	}
}

func TestADeletedRolloutIsRecreated(t *testing.T) {
	tests := []struct {
		name    string
		written func(*cluster) // after the pass that creates the rollout
	}{
		{"though this process created it and wrote nothing since", func(*cluster) {}},
		{"though this process wrote it since", func(c *cluster) {
			if err := c.api.Status().Update(context.Background(), fixture.Offline(fixture.Node("c"))); err != nil {
				c.t.Fatal(err)
			}
			c.now = c.now.Add(reportInterval)
			c.mustReconcile()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, pausedFirst)
			c.mustReconcile()
			tt.written(c)
			before := c.stored().Status
			c.deleteRollout()
			c.now = c.now.Add(cacheLag)
			c.mustReconcile()
			if diff := cmp.Diff(before.Targets, c.stored().Status.Targets); diff != "" || c.stored().Name == "" {
				t.Fatalf("rollout %q, targets (-before +after):\n%s", c.stored().Name, diff)
			}
			c.goOn()
			c.mustReconcile()
			if len(c.deletions) != 1 || len(c.slots()) != 1 {
				t.Errorf("deletions %v, slots %v, want the rollout to go on with one of each", c.deletions, c.slots())
			}
		})
	}
}

func TestARolloutDeletedBeforeItsNextLedgerIsCreatedAgain(t *testing.T) {
	c := newCluster(t, pausedFirst)
	c.mustReconcile()
	c.deleteRollout()
	c.goOn()
	c.now = fixture.Epoch.Add(cacheLag / 4) // the cache may not show it yet
	if _, err := c.reconcile(); !apierrors.IsNotFound(err) {
		t.Errorf("Reconcile: %v, want that the rollout is not found", err)
	}
	c.wantDeletions()
	c.mustReconcile()
	if len(c.deletions) != 1 || len(c.slots()) != 1 {
		t.Errorf("deletions %v, slots %v, want one of each at the next pass", c.deletions, c.slots())
	}
}

func TestARolloutTheCacheDoesNotShowIsLookedForAfterAWhile(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "daemonrollouts"}, "driver")
	tests := []struct {
		name    string
		age     time.Duration // since the creation
		err     error         // of the live read of the rollout
		asked   int
		created bool // a second time
		wantErr bool
	}{
		{"not before", cacheLag - time.Millisecond, gone, 0, false, false},
		{"and is used as it was written when it is there", cacheLag, nil, 1, false, false},
		{"and is created again when it is not", cacheLag, gone, 1, true, false},
		{"and is not created again when nobody knows", time.Hour, broken500, 1, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, pausedFirst)
			c.mustReconcile()
			asked := 0
			c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, ok := object.(*topsv1.DaemonRollout); ok {
					if asked++; tt.err != nil {
						return tt.err
					}
				}
				return w.Get(ctx, key, object, opts...)
			}})
			c.staleRollouts, c.onCreate = true, exists // the error reveals the second creation
			c.now = fixture.Epoch.Add(tt.age)
			after, err := c.reconcile()
			if (err != nil) != tt.wantErr || asked != tt.asked || (after == retryStaleCache) != tt.created || c.statusUpdates != 1 {
				t.Errorf("asked %d times, created again: %v, %d status writes, %v", asked, after == retryStaleCache, c.statusUpdates, err)
			}
		})
	}
}

func TestARecreatedRolloutOfAnotherClientIsNotAdopted(t *testing.T) {
	c := newCluster(t, pausedFirst)
	c.mustReconcile()
	theirs := c.stored()
	c.deleteRollout()
	theirs.UID, theirs.ResourceVersion, theirs.Status = "uid-theirs", "", topsv1.DaemonRolloutStatus{}
	c.create(theirs)
	c.staleRollouts, c.now = true, fixture.Epoch.Add(cacheLag)
	if after := c.mustReconcile(); after != retryStaleCache {
		t.Errorf("decides again after %s, want %s: until the cache shows it", after, retryStaleCache)
	}
	c.staleRollouts = false
	c.mustReconcile()
	if got := c.stored(); got.UID != "uid-theirs" || len(got.Status.Targets) != 1 {
		t.Errorf("rollout %s with targets %v, want theirs with one", got.UID, got.Status.Targets)
	}
}

func TestARolloutThatWasJustCreatedIsLookedForSoonThoughNothingHappens(t *testing.T) {
	c := newCluster(t, pausedFirst)
	if after := c.mustReconcile(); after == 0 || after > cacheLag {
		t.Errorf("next pass after %s, want within %s: somebody may delete it before the cache shows it", after, cacheLag)
	}
	if after := c.mustReconcile(); after != 0 {
		t.Errorf("next pass after %s when the cache shows it, want never", after)
	}
}

// A node that is not available is replaced before nodes that wait in the queue. If the cache is behind, it is available, and a
// manager with the ledger of before may replace one of those as well.
func TestAnUnreadyNodeIsConfirmedLiveBeforeItIsReplacedOutOfTurn(t *testing.T) {
	c := newCluster(t, twoAtATime)
	unready := func(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: fixture.Ago(ago)}}
		return pod
	}
	c.create(fixture.Node("d"))
	c.create(fixture.PodOn(c.driver, "d", fixture.OldHash))
	c.create(fixture.Node("e"))
	c.create(unready(fixture.PodOn(c.driver, "e", fixture.OldHash), 0)) // it counts as unavailable, and may only flap
	c.mustReconcile()
	if slots := simSlots(c.stored()); len(slots) != 3 || len(c.deletions) != 1 {
		t.Fatalf("slots %v, deletions %v; want one node to be started and two queued", slots, c.deletions)
	}
	all := []string{"a", "b", "c", "d"}
	last := all[slices.IndexFunc(all, func(node string) bool {
		return !slices.ContainsFunc(simSlots(c.stored()), func(s topsv1.NodeSlot) bool { return s.Node == node })
	})]
	var pod corev1.Pod
	if err := c.api.Get(t.Context(), client.ObjectKey{Namespace: c.driver.Namespace, Name: "driver-" + last}, &pod); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	if err := c.api.Status().Update(t.Context(), unready(&pod, time.Hour)); err != nil {
		t.Fatal(err)
	}
	c.live(interceptor.Funcs{List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if pods, ok := list.(*corev1.PodList); ok {
			pods.Items = []corev1.Pod{*before}
			return nil
		}
		return w.List(ctx, list, opts...)
	}})
	c.deletions = nil
	c.reconciler.changed.Add(observed.GroupOf(c.driver), last)
	if after := c.mustReconcile(); after == 0 || after > retryAvailable {
		t.Errorf("decides again after %s, want at most %s", after, retryAvailable)
	}
	c.wantDeletions()
	c.live(interceptor.Funcs{})
	c.reconciler.changed.Add(observed.GroupOf(c.driver), last)
	c.mustReconcile()
	c.wantDeletions("driver-" + last)
}
