package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

var (
	conflict  = apierrors.NewConflict(schema.GroupResource{Resource: "daemonrollouts"}, "driver", errors.New("changed"))
	exists    = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "daemonrollouts"}, "driver")
	broken500 = apierrors.NewInternalError(errors.New("etcd is away"))
)

// cluster is a fake API server with one DaemonSet "driver" on outdated nodes a, b and c, and the
// reconciler of its group. Behavior of the real API server is tested in test/e2e.
type cluster struct {
	t          *testing.T
	api        client.Client // without the faults
	driver     *appsv1.DaemonSet
	reconciler *Reconciler
	recorder   *events.FakeRecorder
	now        time.Time

	mu        sync.Mutex
	deletions []string // pod and UID precondition of each requested deletion
	// faults, by request; nil for none.
	onCreate, onStatusUpdate error
	onOperationWrite         func(node string) error
	onFence                  error
	onAnswer                 error // to requests of nodes
	fences                   int   // refused by onFence
	onDelete                 func(pod string) error
	statusUpdates            int
	staleRollouts            bool   // the cache does not show DaemonRollouts yet
	staleRevision            string // the ControllerRevision the cache does not show yet
	staleNode                string // the node the cache does not show yet
}

func newCluster(t *testing.T, change func(*appsv1.DaemonSet)) *cluster {
	t.Helper()
	c := &cluster{t: t, driver: fixture.DaemonSet("driver"), recorder: events.NewFakeRecorder(100), now: fixture.Epoch}
	change(c.driver)
	objects := []client.Object{c.driver}
	if ref := daemonset.GcuResourceOwner(c.driver); ref != nil {
		objects = append(objects, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, UID: ref.UID},
			Spec: fixture.SpecNaming(client.ObjectKeyFromObject(c.driver))})
	}
	for _, r := range fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash) {
		objects = append(objects, r)
	}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, fixture.Node(name), fixture.PodOn(c.driver, name, fixture.OldHash))
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	store := fake.NewClientBuilder().WithGlobalResourceVersionCounter().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&topsv1.DaemonRollout{}, &topsv1.NodeUpgrade{}, &topsv1.UpgradePlan{}).
		WithIndex(&corev1.Pod{}, controllerUID, indexByController).WithIndex(&corev1.Pod{}, simNodeOfPod, simLiveIndexers[simNodeOfPod]).
		WithIndex(&appsv1.ControllerRevision{}, controllerUID, indexByController).Build()
	c.api = store
	c.reconciler = &Reconciler{
		Client: interceptor.NewClient(store, c.faults()), Live: store, Recorder: c.recorder, Namespace: "gcu-system",
		Metrics: metrics.New(prometheus.NewRegistry()), Deadlines: rollout.DefaultDeadlines, Book: upgradeplan.DefaultBook(),
		Clock: func() time.Time { return c.now }, groupStates: newGroupStates(nil),
	}
	return c
}

func unchanged(*appsv1.DaemonSet) {}

func twoAtATime(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "2") }

// faults makes the API server fail as configured, and checks at every deletion that the stored
// ledger names the pod.
func (c *cluster) faults() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*topsv1.DaemonRollout); ok && c.staleRollouts {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "daemonrollouts"}, key.Name)
			}
			if _, ok := object.(*corev1.Node); ok && key.Name == c.staleNode {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
			}
			return w.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			if revisions, ok := list.(*appsv1.ControllerRevisionList); ok {
				revisions.Items = slices.DeleteFunc(revisions.Items, func(r appsv1.ControllerRevision) bool { return r.Name == c.staleRevision })
			}
			if nodes, ok := list.(*corev1.NodeList); ok {
				nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == c.staleNode })
			}
			return err
		},
		Create: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if c.onCreate != nil {
				return c.onCreate
			}
			if err := c.operationFault(object); err != nil {
				return err
			}
			return w.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := c.operationFault(object); err != nil {
				return err
			}
			return w.Patch(ctx, object, patch, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			c.statusUpdates++
			if c.onStatusUpdate != nil {
				return c.onStatusUpdate
			}
			return w.SubResource(sub).Update(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return w.Delete(ctx, object, opts...)
			}
			options := (&client.DeleteOptions{}).ApplyOptions(opts)
			if options.Preconditions == nil || options.Preconditions.UID == nil {
				c.t.Errorf("pod %s is deleted without a UID precondition", pod.Name)
				return nil
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.deletions = append(c.deletions, pod.Name)
			if !slices.ContainsFunc(simSlots(c.stored()), func(s topsv1.NodeSlot) bool { return s.PodUID == *options.Preconditions.UID }) {
				c.t.Errorf("pod %s is deleted before the ledger names it", pod.Name)
			}
			if c.onDelete != nil {
				return c.onDelete(pod.Name)
			}
			return w.Delete(ctx, object, opts...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := object.(*topsv1.NodeUpgrade); ok && c.onAnswer != nil {
				return c.onAnswer
			}
			if data, _ := patch.Data(object); c.onFence != nil && strings.Contains(string(data), string(podreplace.Fenced)) {
				c.fences++
				return c.onFence
			}
			return w.SubResource(sub).Patch(ctx, object, patch, opts...)
		},
	}
}

// stored returns the DaemonRollout in the API server, an empty one if there is none.
func (c *cluster) stored() *topsv1.DaemonRollout {
	c.t.Helper()
	var r topsv1.DaemonRollout
	if err := c.api.Get(context.Background(), observed.GroupOf(c.driver).RolloutKey("gcu-system"), &r); client.IgnoreNotFound(err) != nil {
		c.t.Error(err) // not Fatal: deletions run in other goroutines
	}
	return &r
}

// reconcile makes one pass, after events for every node, and returns when the next is due and the
// error.
func (c *cluster) reconcile() (time.Duration, error) {
	for _, node := range []string{"a", "b", "c"} {
		c.reconciler.changed.Add(observed.GroupOf(c.driver), node)
	}
	result, err := c.reconciler.Reconcile(context.Background(), observed.GroupOf(c.driver))
	return result.RequeueAfter, err
}

func (c *cluster) mustReconcile() time.Duration {
	c.t.Helper()
	after, err := c.reconcile()
	if err != nil {
		c.t.Fatalf("Reconcile: %v", err)
	}
	return after
}

func (c *cluster) slots() []string {
	var names []string
	for _, s := range c.stored().Status.InFlight {
		names = append(names, s.Node)
	}
	return names
}

func (c *cluster) wantDeletions(want ...string) {
	c.t.Helper()
	slices.Sort(c.deletions)
	if diff := cmp.Diff(want, c.deletions); diff != "" {
		c.t.Errorf("pods deleted (-want +got):\n%s", diff)
	}
}

func (c *cluster) update(object client.Object) {
	c.t.Helper()
	if err := c.api.Update(context.Background(), object); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) eventTexts() []string {
	var told []string
	for len(c.recorder.Events) > 0 {
		told = append(told, <-c.recorder.Events)
	}
	return told
}

func TestReconcileStoresTheLedgerThenDeletes(t *testing.T) {
	c := newCluster(t, twoAtATime)
	c.mustReconcile()
	if slots := c.slots(); len(slots) != 2 || len(c.deletions) != 2 {
		t.Errorf("slots %v, deletions %v, want two of each", slots, c.deletions)
	}
	want := []string{"Normal RollingOut 0 of 3 nodes updated, 2 in flight (" + fmt.Sprint(c.slots()[0], ", ", c.slots()[1]) + "), 1 pending"}
	if diff := cmp.Diff(want, c.eventTexts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReconcileDeletesNothingUnlessTheLedgerIsStored(t *testing.T) {
	tests := []struct {
		name  string
		fault func(*cluster)
		retry bool // requeued soon, instead of an error
	}{
		{"the status write meets a newer one", func(c *cluster) { c.onStatusUpdate = conflict }, true},
		{"the status write fails", func(c *cluster) { c.onStatusUpdate = broken500 }, false},
		{"the rollout cannot be created", func(c *cluster) { c.onCreate = broken500 }, false},
		{"another manager created the rollout first", func(c *cluster) { c.onCreate = exists }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			tt.fault(c)
			after, err := c.reconcile()
			c.wantDeletions()
			if tt.retry != (err == nil && after == retryStaleCache) {
				t.Errorf("Reconcile = after %s, %v, want to decide again soon: %v", after, err, tt.retry)
			}
			if told := c.eventTexts(); len(told) != 0 {
				t.Errorf("events %v about what was not stored", told)
			}
			c.onCreate, c.onStatusUpdate = nil, nil
			c.mustReconcile()
			if len(c.deletions) != 1 {
				t.Errorf("%d pods deleted when the fault is over, want 1", len(c.deletions))
			}
		})
	}
}

func TestReconcileDeletesNothingOfADaemonSetThatChangedMeanwhile(t *testing.T) {
	tests := []struct {
		name   string
		change func(c *cluster, live *appsv1.DaemonSet)
	}{
		{"opted out", func(_ *cluster, live *appsv1.DaemonSet) { delete(live.Annotations, topsv1.AnnotationUpdateStrategy) }},
		{"switched to OTA", func(_ *cluster, live *appsv1.DaemonSet) {
			fixture.Annotate(live, topsv1.AnnotationUpdateStrategy, "OTA")
		}},
		{"paused", func(_ *cluster, live *appsv1.DaemonSet) { fixture.Annotate(live, topsv1.AnnotationPaused, "true") }},
		{"annotated wrongly", func(_ *cluster, live *appsv1.DaemonSet) { fixture.Annotate(live, topsv1.AnnotationMaxUnavailable, "0") }},
		{"updated by the DaemonSet controller itself", func(_ *cluster, live *appsv1.DaemonSet) {
			live.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
		}},
		{"given another template", func(_ *cluster, live *appsv1.DaemonSet) { live.Generation = 3 }},
		{"recreated", func(_ *cluster, live *appsv1.DaemonSet) { live.UID = "uid-new" }},
		{"being deleted", func(_ *cluster, live *appsv1.DaemonSet) { now := fixture.Ago(0); live.DeletionTimestamp = &now }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					err := w.Get(ctx, key, object, opts...)
					tt.change(c, object.(*appsv1.DaemonSet))
					return err
				}})
			if after := c.mustReconcile(); after != retryStaleCache {
				t.Errorf("decides again after %s, want %s", after, retryStaleCache)
			}
			c.wantDeletions()
		})
	}
	for name, err := range map[string]error{"deleted": apierrors.NewNotFound(schema.GroupResource{Resource: "daemonsets"}, "driver"), "not readable": broken500} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return err
				}})
			if _, got := c.reconcile(); (got != nil) == apierrors.IsNotFound(err) {
				t.Errorf("Reconcile: %v", got)
			}
			c.wantDeletions()
		})
	}
}
