package daemonupdater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/reporter"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// haltedCluster is a cluster whose driver failed on nodes a and b at the new revision; the old
// one is the last known good one. patched lists the names of patched objects; one patch fails
// with onPatch.
type haltedCluster struct {
	*cluster
	patched []string
	onPatch error
	// onDryRun is the answer to dry runs.
	onDryRun error
}

func templateData(ds *appsv1.DaemonSet, image string) []byte {
	return fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{"app":%q,"tier":"node"}},"spec":{"containers":[{"name":"main","image":%q}]},"$patch":"replace"}}}`, ds.Name, image)
}

func newHaltedCluster(t *testing.T, change func(*appsv1.DaemonSet)) *haltedCluster {
	t.Helper()
	c := &haltedCluster{cluster: newCluster(t, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:new"}, {Name: "added", Image: "x"}}
		fixture.Annotate(ds, topsv1.AnnotationUpgradePolicy, "careful")
		change(ds)
	})}
	ctx := context.Background()
	for i, r := range fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash) {
		var live appsv1.ControllerRevision
		c.must(c.api.Get(ctx, client.ObjectKeyFromObject(r), &live))
		live.Data.Raw = templateData(c.driver, []string{"app:old", "app:new"}[i])
		c.update(&live)
	}
	c.must(c.api.Create(ctx, fixture.PolicyOnFailure(topsv1.FailureRollback)))
	for _, name := range []string{"a", "b"} {
		c.pod(name, fixture.NewHash, false)
	}
	g := observed.GroupOf(c.driver)
	key := g.RolloutKey("gcu-system")
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: g.Kind, Name: g.Name}}}
	c.must(c.api.Create(ctx, dro))
	dro.Status.Revision, dro.Status.Touched = simRevisionOf("kube-system/driver="+fixture.NewHash), 2
	for _, name := range []string{"a", "b"} {
		dro.Status.Failed = append(dro.Status.Failed, topsv1.NodeNote{Node: name, UID: types.UID("uid-" + name),
			Reason: string(rollout.ReasonCrashLooping), Message: "it crash-loops", Since: fixture.Ago(0)})
	}
	dro.Status.LastKnownGood = fixture.GoodAt(simRevisionOf("kube-system/driver="+fixture.OldHash), fixture.OldHash)
	if g.Kind == observed.KindGcuResource {
		dro.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
	}
	c.must(c.api.Status().Update(ctx, dro))
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, p client.Patch, opts ...client.PatchOption) error {
			if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) > 0 {
				return c.onDryRun
			}
			c.patched = append(c.patched, object.GetName())
			if c.ledger().Rollback == nil {
				t.Errorf("%s is patched before the intent is stored", object.GetName())
			}
			if err := c.onPatch; err != nil {
				c.onPatch = nil
				return err
			}
			return w.Patch(ctx, object, p, opts...)
		}})
	return c
}

func (c *haltedCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ledger returns the stored status of the group.
func (c *haltedCluster) ledger() *topsv1.DaemonRolloutStatus {
	c.t.Helper()
	var r topsv1.DaemonRollout
	c.must(c.api.Get(context.Background(), observed.GroupOf(c.driver).RolloutKey("gcu-system"), &r))
	return &r.Status
}

// pod replaces the pod of a node.
func (c *haltedCluster) pod(node, hash string, available bool) {
	c.t.Helper()
	pod := fixture.PodOn(c.driver, node, hash)
	pod.UID += types.UID("-" + hash)
	if !available {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	c.must(client.IgnoreNotFound(c.api.Delete(context.Background(), pod.DeepCopy())))
	c.must(c.api.Create(context.Background(), pod))
	if available { // a new pod: a real API server counts versions over all objects
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "version", "2")
		c.update(pod)
	}
}

func (c *haltedCluster) live() *appsv1.DaemonSet {
	c.t.Helper()
	var ds appsv1.DaemonSet
	c.must(c.api.Get(context.Background(), client.ObjectKeyFromObject(c.driver), &ds))
	return &ds
}

// observes acts as the DaemonSet controller and makes a revision the newest.
func (c *haltedCluster) observes(hash string, number int64) {
	c.t.Helper()
	ds := c.live()
	ds.Generation++
	c.update(ds)
	ds.Status.ObservedGeneration = ds.Generation
	c.must(c.api.Status().Update(context.Background(), ds))
	var r appsv1.ControllerRevision
	c.must(c.api.Get(context.Background(), client.ObjectKey{Namespace: ds.Namespace, Name: ds.Name + "-" + hash}, &r))
	r.Revision = number
	c.update(&r)
}

func TestAHaltedDaemonSetGetsItsGoodTemplateBack(t *testing.T) {
	c := newHaltedCluster(t, unchanged)
	c.mustReconcile()
	want := []corev1.Container{{Name: "main", Image: "app:old"}}
	if diff := cmp.Diff(want, c.live().Spec.Template.Spec.Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	c.wantDeletions()
	told := strings.Join(c.eventTexts(), "\n")
	if !strings.Contains(told, "Warning RollingBack back to old, the last known good revision: 2 of 2 started nodes failed (a, b)") {
		t.Errorf("events:\n%s", told)
	}
	c.observes(fixture.OldHash, 3)
	c.now = fixture.Epoch.Add(time.Minute)
	c.mustReconcile()
	if w := fixture.Words(*c.ledger()); w["Progressing"] != "True/RollingBack" || len(c.deletions) != 1 || c.deletions[0] == "driver-c" {
		t.Errorf("%v, deletions %v", w, c.deletions)
	}
	for _, name := range []string{"a", "b"} {
		c.pod(name, fixture.OldHash, true)
	}
	c.mustReconcile()
	if told := strings.Join(c.eventTexts(), "\n"); !strings.Contains(told, "Normal RolledBack") || c.ledger().Rollback.CompletedTime == nil {
		t.Errorf("%+v, events:\n%s", c.ledger().Rollback, told)
	}
	if len(c.patched) != 1 {
		t.Errorf("patched %v, want the DaemonSet once", c.patched)
	}
}

// An admission policy may forbid the manager to write a DaemonSet that may run on the control plane.
func TestARollbackThatIsDeniedIsNotPromised(t *testing.T) {
	c := newHaltedCluster(t, func(*appsv1.DaemonSet) {})
	c.onDryRun = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Message: "ValidatingAdmissionPolicy 'gcu-control-plane-workloads' with binding 'b' denied request: its pods could run there"}}
	c.mustReconcile()
	halted := meta.FindStatusCondition(c.ledger().Conditions, topsv1.RolloutHalted)
	if c.ledger().Rollback != nil || len(c.patched) > 0 || !strings.Contains(halted.Message, "not rolled back: ") || !strings.Contains(halted.Message, "its pods could run there") {
		t.Errorf("%+v, patched %v: %s", c.ledger().Rollback, c.patched, halted.Message)
	}
	c.onDryRun = nil
	c.now = c.now.Add(time.Minute)
	c.mustReconcile()
	if c.ledger().Rollback == nil || len(c.patched) != 1 {
		t.Errorf("%+v, patched %v, once it is allowed", c.ledger().Rollback, c.patched)
	}
}

func TestARollbackGoesOnAfterTheManagerWasKilled(t *testing.T) {
	for name, fault := range map[string]error{"before the patch": broken500, "when the patch met a change": conflict} {
		t.Run(name, func(t *testing.T) {
			c := newHaltedCluster(t, unchanged)
			c.onPatch = fault
			if after, err := c.reconcile(); (err == nil) != apierrors.IsConflict(fault) || (err == nil && after != retryStaleCache) {
				t.Errorf("Reconcile = %s, %v", after, err)
			}
			intent := c.ledger().Rollback
			if image := c.live().Spec.Template.Spec.Containers[0].Image; intent == nil || image != "app:new" {
				t.Fatalf("intent %+v, image %s", intent, image)
			}
			c.reconciler.written, c.reconciler.attempts.Deletions = map[observed.Group]writtenRollout{}, deletion.Attempts{}
			c.now = fixture.Epoch.Add(time.Minute)
			c.mustReconcile()
			if image := c.live().Spec.Template.Spec.Containers[0].Image; image != "app:old" {
				t.Errorf("image %s after the restart", image)
			}
			if diff := cmp.Diff(intent, c.ledger().Rollback); diff != "" {
				t.Errorf("the intent was stored twice (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNothingIsRolledBackThatIsNotWhatWasObserved(t *testing.T) {
	tests := map[string]func(live *appsv1.DaemonSet){
		"given another template":  func(live *appsv1.DaemonSet) { live.Generation = 3 },
		"opted out":               func(live *appsv1.DaemonSet) { delete(live.Annotations, topsv1.AnnotationUpdateStrategy) },
		"paused":                  func(live *appsv1.DaemonSet) { fixture.Annotate(live, topsv1.AnnotationPaused, "true") },
		"recreated":               func(live *appsv1.DaemonSet) { live.UID = "uid-new" },
		"rendered from another":   func(live *appsv1.DaemonSet) { fixture.Annotate(live, topsv1.AnnotationRevision, "fleet-9") },
		"changed since it's read": func(live *appsv1.DaemonSet) { live.ResourceVersion = "99" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c := newHaltedCluster(t, unchanged)
			c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					err := w.Get(ctx, key, object, opts...)
					if ds, ok := object.(*appsv1.DaemonSet); ok {
						change(ds)
					}
					return err
				}})
			if after := c.mustReconcile(); after != retryStaleCache {
				t.Errorf("decides again after %s, want %s", after, retryStaleCache)
			}
			if image := c.live().Spec.Template.Spec.Containers[0].Image; image != "app:new" {
				t.Errorf("image %s", image)
			}
		})
	}
	t.Run("with a newer revision the cache does not show", func(t *testing.T) {
		c := newHaltedCluster(t, unchanged)
		newest := fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash, "newest")[2]
		c.must(c.api.Create(context.Background(), newest))
		c.staleRevision = newest.Name
		if after := c.mustReconcile(); after != retryStaleCache || len(c.patched) != 0 {
			t.Errorf("decides again after %s, patched %v", after, c.patched)
		}
	})
	t.Run("with a newer revision since the target was confirmed", func(t *testing.T) {
		c, confirmed := newHaltedCluster(t, unchanged), false
		newest := fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash, "newest")[2]
		c.must(c.api.Create(context.Background(), newest))
		c.staleRevision = newest.Name
		c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := w.List(ctx, list, opts...)
				if revisions, ok := list.(*appsv1.ControllerRevisionList); ok && !confirmed {
					revisions.Items = slices.DeleteFunc(revisions.Items, func(r appsv1.ControllerRevision) bool { return r.Name == newest.Name })
					confirmed = true
				}
				return err
			}})
		if after := c.mustReconcile(); after != retryStaleCache || len(c.patched) != 0 || !confirmed {
			t.Errorf("decides again after %s, patched %v", after, c.patched)
		}
	})
}

func TestAManagerThatDoesNotDecideAnyMoreRollsNothingBack(t *testing.T) {
	c := newHaltedCluster(t, unchanged)
	c.reconciler.Live = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			err := w.Get(ctx, key, object, opts...)
			if r, ok := object.(*topsv1.DaemonRollout); ok {
				r.ResourceVersion = "1" // another manager wrote
			}
			return err
		}})
	if after := c.mustReconcile(); after != retryStaleCache || len(c.patched) != 0 {
		t.Errorf("decides again after %s, patched %v", after, c.patched)
	}
}

func TestAGoodRevisionThatIsNotKeptStaysHalted(t *testing.T) {
	c := newHaltedCluster(t, unchanged)
	c.must(c.api.Delete(context.Background(), fixture.RevisionsOf(c.driver, fixture.OldHash)[0]))
	c.mustReconcile()
	status := c.ledger()
	if !strings.HasSuffix(fixture.MessageOf(*status, topsv1.RolloutHalted), "; not rolled back: old, the last known good revision, is no longer stored") ||
		status.Rollback != nil || len(c.patched) != 0 {
		t.Errorf("%q, %+v, patched %v", fixture.MessageOf(*status, topsv1.RolloutHalted), status.Rollback, c.patched)
	}
}

// fleetDriver makes the driver part of the gr fleet, rendered from its second spec.
func fleetDriver(ds *appsv1.DaemonSet) {
	fixture.OfGcuResource(ds)
	fixture.Annotate(ds, topsv1.AnnotationRevision, "fleet-2")
}

// newHaltedFleet returns a cluster with a gr "fleet" whose driver failed.
func newHaltedFleet(t *testing.T, change func(*topsv1.GcuResource)) *haltedCluster {
	t.Helper()
	c := newHaltedCluster(t, fleetDriver)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-fleet", Generation: 2, Annotations: map[string]string{}}}
	for _, key := range topsv1.UpgradeAnnotations {
		if v, ok := c.driver.Annotations[key]; ok {
			gr.Annotations[key] = v
		}
	}
	gr.Spec, gr.Status.ObservedGeneration = fixture.SpecNaming(client.ObjectKeyFromObject(c.driver)), 2
	change(gr)
	c.loseGr()
	c.must(c.api.Create(context.Background(), gr))
	c.must(c.api.Create(context.Background(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet-1"}}))
	return c
}

// inPlace acts as the gcuresource controller, which deploys the first spec in place of the second, or again the second.
func (c *haltedCluster) inPlace(is bool) {
	c.t.Helper()
	ds := c.live()
	ds.Annotations[topsv1.AnnotationRevision] = "fleet-2"
	delete(ds.Annotations, topsv1.AnnotationRejectedRevision)
	if is {
		ds.Annotations[topsv1.AnnotationRevision], ds.Annotations[topsv1.AnnotationRejectedRevision] = "fleet-1", "fleet-2"
	}
	c.update(ds)
}

// mission returns a plan that replaces the exporter of nodes.
func mission(nodes ...string) *topsv1.UpgradePlan {
	return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", Generation: 1}, Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: nodes}}}}}}
}

// What a plan did is not there any more once it was rolled back, and its result says so, also after months.
func TestTheResultOfAPlanSaysThatItWasRolledBack(t *testing.T) {
	c := newHaltedFleet(t, func(gr *topsv1.GcuResource) {})
	plan := mission("a", "b")
	plan.Status.Done = 2
	c.create(plan)
	ds := c.live()
	fixture.Annotate(ds, topsv1.AnnotationUpgradePlan, "mission").Labels[topsv1.LabelComponent] = "exporter"
	c.update(ds)
	rolledBack := func() *metav1.Time {
		c.now = c.now.Add(reporter.PlanInterval)
		c.mustReconcile()
		var stored topsv1.UpgradePlan
		c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored))
		return stored.Status.RolledBackTime
	}
	if at := rolledBack(); at != nil || c.ledger().Rollback == nil {
		t.Fatalf("rolled back at %v, rollback %+v", at, c.ledger().Rollback)
	}
	c.inPlace(true)
	c.observes(fixture.OldHash, 3)
	if at := rolledBack(); !at.Equal(&c.ledger().Rollback.Time) {
		t.Errorf("rolled back at %v", at)
	}
	dro := c.stored()
	metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationResume, "now")
	c.update(dro)
	rolledBack()
	c.inPlace(false)
	c.observes(fixture.NewHash, 4)
	if at := rolledBack(); at != nil {
		t.Errorf("it is in force again, and rolled back at %v", at)
	}
}

// The failures that halt a rollout, and roll it back, are in the result of its plan, also when it was just written
// and another node is in flight.
func TestTheResultOfAPlanThatIsRolledBackKeepsTheFailures(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	at := metav1.NewTime(c.now.Add(-reporter.PlanInterval / 3))
	plan := mission("a", "b", "c")
	plan.Status = topsv1.UpgradePlanStatus{ObservedGeneration: 1, Time: &at, Undo: 3, Undone: []string{"a", "b", "c"}}
	c.create(plan)
	c.must(c.api.Delete(t.Context(), fixture.PodOn(c.driver, "c", fixture.OldHash)))
	dro := c.stored()
	dro.Status.InFlight = []topsv1.NodeSlot{{Node: "c", UID: "uid-c", Since: metav1.NewTime(c.now), Revision: dro.Status.Revision}}
	c.must(c.api.Status().Update(t.Context(), dro))
	ds := c.live()
	fixture.Annotate(ds, topsv1.AnnotationUpgradePlan, "mission").Labels[topsv1.LabelComponent] = "exporter"
	c.update(ds)
	c.mustReconcile()
	if c.ledger().Rollback == nil {
		t.Fatal("it is not rolled back")
	}
	c.inPlace(true)
	c.observes(fixture.OldHash, 3)
	c.mustReconcile()
	var stored topsv1.UpgradePlan
	c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored))
	if stored.Status.RolledBackTime == nil || stored.Status.Fail != 2 || stored.Status.Undo != 1 {
		t.Errorf("done %d, fail %d, undo %d, rolled back at %v", stored.Status.Done, stored.Status.Fail, stored.Status.Undo, stored.Status.RolledBackTime)
	}
}

func TestAHaltedGcuResourceIsRolledBack(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	c.mustReconcile()
	rb := c.ledger().Rollback
	if rb == nil || rb.GcuResourceRevision != "fleet-1" || rb.RejectedRevision != "fleet-2" || !strings.HasPrefix(rb.Message, "back to fleet-1, ") {
		t.Fatalf("intent %+v", rb)
	}
	const waits = "False/RevisionPending"
	waitsUntouched := func(when string) {
		t.Helper()
		c.now = c.now.Add(time.Minute)
		c.mustReconcile()
		if w := fixture.Words(*c.ledger()); w["Progressing"] != waits || w["Accepted"] != "True/SettingsAccepted" || len(c.slots()) != 0 {
			t.Errorf("%s: %v, slots %v, want that it waits", when, w, c.slots())
		}
		if diff := cmp.Diff(rb.Time, c.ledger().Rollback.Time); diff != "" {
			t.Errorf("%s: the rejection is another one (-before +after):\n%s", when, diff)
		}
	}
	waitsUntouched("until the good spec is deployed")
	c.inPlace(true)
	c.observes(fixture.OldHash, 3)
	c.mustReconcile()
	if w := fixture.Words(*c.ledger()); w["Progressing"] != "True/RollingBack" || c.ledger().Rollback.RestoredTime == nil {
		t.Errorf("%v, %+v", w, c.ledger().Rollback)
	}
	for _, name := range []string{"a", "b"} {
		c.pod(name, fixture.OldHash, true)
	}
	c.mustReconcile()
	if c.ledger().Rollback.CompletedTime == nil {
		t.Errorf("%+v", c.ledger().Rollback)
	}
	c.inPlace(false) // a manager with an old cache
	c.observes(fixture.NewHash, 4)
	waitsUntouched("while the rejected spec is deployed again")
	if len(c.patched) != 0 {
		t.Errorf("patched %v, want nothing", c.patched)
	}
	var dro topsv1.DaemonRollout
	c.must(c.api.Get(context.Background(), observed.GroupOf(c.driver).RolloutKey("gcu-system"), &dro))
	metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationResume, "now")
	c.update(&dro)
	c.mustReconcile()
	if c.ledger().Rollback != nil || c.ledger().Revision == rb.To {
		t.Errorf("resumed at %s, %+v", c.ledger().Revision, c.ledger().Rollback)
	}
}

// It was resumed once; somebody cleans the annotation up.
func TestThatAResumeIsRemovedIsNoResume(t *testing.T) {
	c := newHaltedCluster(t, unchanged)
	var dro topsv1.DaemonRollout
	c.must(c.api.Get(context.Background(), observed.GroupOf(c.driver).RolloutKey("gcu-system"), &dro))
	dro.Status.Resumed = "earlier"
	c.must(c.api.Status().Update(context.Background(), &dro))
	for range 2 {
		c.mustReconcile()
		if s := c.ledger(); s.Rollback == nil || len(s.Failed) != 2 || s.Resumed != "earlier" {
			t.Fatalf("failed %v, rollback %+v, resumed %q", s.Failed, s.Rollback, s.Resumed)
		}
	}
}

func TestAGcuResourceIsNotRolledBackToASpecThatIsNotKept(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	c.must(c.api.Delete(context.Background(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet-1"}}))
	c.mustReconcile()
	if m := fixture.MessageOf(*c.ledger(), topsv1.RolloutHalted); c.ledger().Rollback != nil || !strings.HasSuffix(m, "fleet-1, the last known good revision, is no longer stored") {
		t.Errorf("%+v, says %q", c.ledger().Rollback, m)
	}
}

// The template of a DaemonSet of no gr is its spec: a tool that sets the rejected one again is not fought, and no
// node gets it.
func TestARejectedTemplateThatComesAgainReachesNoNode(t *testing.T) {
	c := newHaltedCluster(t, unchanged)
	c.mustReconcile()
	c.observes(fixture.OldHash, 3)
	c.mustReconcile()
	for _, name := range []string{"a", "b"} {
		c.pod(name, fixture.OldHash, true)
	}
	c.mustReconcile()
	deleted := len(c.deletions)
	c.observes(fixture.NewHash, 4)
	c.now = fixture.Epoch.Add(time.Hour)
	c.mustReconcile()
	if w := fixture.Words(*c.ledger()); w["Accepted"] != "False/RevisionRejected" || len(c.slots()) != 0 || len(c.deletions) != deleted || len(c.patched) != 1 {
		t.Errorf("%v, slots %v, deletions %v, patched %v", w, c.slots(), c.deletions, c.patched)
	}
	if told := strings.Join(c.eventTexts(), "\n"); !strings.Contains(told, "Warning RevisionRejected this template was rejected by a rollback: roll out another one, or resume: back to old") {
		t.Errorf("events:\n%s", told)
	}
	newest := fixture.RevisionsOf(c.driver, fixture.OldHash, fixture.NewHash, "newest")[2]
	c.must(c.api.Create(context.Background(), newest))
	c.observes("newest", 5)
	c.mustReconcile()
	if w := fixture.Words(*c.ledger()); w["Accepted"] != "True/SettingsAccepted" || c.ledger().Rollback != nil || len(c.slots()) == 0 {
		t.Errorf("another template: %v, %+v, slots %v", w, c.ledger().Rollback, c.slots())
	}
}
