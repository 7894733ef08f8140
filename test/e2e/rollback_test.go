package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// goesBack creates a policy with failure.action Rollback, and returns annotations that
// refer to it.
func (s *stage) goesBack(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	s.policy(ctx, t, "back", topsv1.UpgradePolicySpec{
		Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollback, MinFailedNodes: 2}, Validation: &topsv1.ValidationPolicy{SoakSeconds: 1}})
	annotations := s.underPolicy("back")
	annotations[topsv1.AnnotationMaxUnavailable] = "2"
	return annotations
}

// survivors returns how many of before are in now.
func survivors(before, now map[types.UID]bool) int {
	n := 0
	for uid := range before {
		if now[uid] {
			n++
		}
	}
	return n
}

// A bad version of a DaemonSet halts and is rolled back automatically; pods that it did
// not reach are not touched.
func TestABadVersionOfADaemonSetIsRolledBackAutomatically(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "goes-back", s.goesBack(ctx, t))
	good := f.reaches(ctx, "known to be good", func(st *topsv1.DaemonRolloutStatus) bool { return st.LastKnownGood != nil })
	before := f.uids(ctx)
	o := f.observe(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
		ds.Spec.Template.Labels[harness.BehaviorLabel] = "crash-loop"
	})
	r := f.reaches(ctx, "rolled back", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Rollback != nil && st.Rollback.CompletedTime != nil
	})
	f.complete(ctx, "app:1", stageNodes)
	if left := survivors(before, f.uids(ctx)); left != stageNodes-2 {
		t.Errorf("%d pods were kept, want all except the 2 that failed", left)
	}
	if deleted, most := o.Replaced(), o.Most(); deleted != 4 || most > 2 {
		t.Errorf("%d pods were deleted, %d nodes down at once, want the old pods and the bad ones of the 2 nodes that failed", deleted, most)
	}
	rb := r.Status.Rollback
	if rb.To != good.Status.LastKnownGood.Revision || r.Status.Revision != rb.To || !strings.Contains(rb.Message, "2 of 2 started nodes failed") {
		t.Errorf("rollback %+v, want it to %s, where the group is", rb, good.Status.LastKnownGood.Revision)
	}
	f.hasEvents(ctx, "RollingBack", "RolledBack")
}

// crashing returns a version of the story whose pods crash-loop.
func (s *stage) crashing() string { return s.name("bad") + harness.CrashingSuffix }

// shows waits until is returns true for a gr, and returns it.
func (s *stage) shows(ctx context.Context, t *testing.T, name, what string, is func(*topsv1.GcuResource) bool) *topsv1.GcuResource {
	t.Helper()
	var gr topsv1.GcuResource
	s.eventually(ctx, t, func() error {
		gr = topsv1.GcuResource{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &gr); err != nil {
			return err
		}
		if !is(&gr) {
			return fmt.Errorf("gr %s is not %s: annotations %v, %+v", name, what, gr.Annotations, gr.Status)
		}
		return nil
	})
	return &gr
}

// action returns "status/reason" of the condition of an action.
func action(gr *topsv1.GcuResource, name string) string {
	for _, c := range gr.Status.Conditions {
		if c.Action == name {
			return c.Status + "/" + c.Reason
		}
	}
	return ""
}

// podsOf returns the UIDs of the pods of a component that are not being deleted.
func (s *stage) podsOf(ctx context.Context, t *testing.T, daemonSet string) map[types.UID]bool {
	t.Helper()
	var list corev1.PodList
	if err := s.Client.List(ctx, &list, client.InNamespace("kube-system"), client.MatchingLabels{"app.kubernetes.io/name": daemonSet}); err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			uids[list.Items[i].UID] = true
		}
	}
	return uids
}

// tool applies a spec to a gr every second, as a GitOps tool does that heals drift, until the test ends or
// it is given another one, or nil. applied returns how often it has applied the current one.
func (s *stage) tool(ctx context.Context, t *testing.T, gr *topsv1.GcuResource) (gives func(*topsv1.GcuResource), applied func() int64) {
	t.Helper()
	var present atomic.Pointer[topsv1.GcuResource]
	var times atomic.Int64
	gives = func(gr *topsv1.GcuResource) {
		present.Store(gr)
		times.Store(0)
	}
	gives(gr)
	ctx, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			if from := present.Load(); from != nil {
				if err := s.applies(ctx, from); ctx.Err() == nil && err != nil {
					t.Errorf("the tool cannot apply the spec: %v", err)
				}
				times.Add(1)
			}
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	return gives, times.Load
}

// applies applies the spec of a gr.
func (s *stage) applies(ctx context.Context, gr *topsv1.GcuResource) error {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&gr.Spec)
	if err != nil {
		return err
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": gr.Name}, "spec": spec}}
	wanted.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	return s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner("tool"), client.ForceOwnership)
}

// A bad driver in a gr halts; the operator deploys the previous spec in its place, and the old driver on the
// nodes where the new one failed. A tool that applies the bad spec every second changes nothing. Then
// another version comes, and a user rolls back by hand.
func TestABadVersionOfAGcuResourceIsRolledBackAutomatically(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	name, driver, gfd := s.name("gr-back"), s.name("gr-back")+"-driver", s.name("gr-back")+"-gfd"
	annotations, bad := s.goesBack(ctx, t), s.crashing()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: topsv1.GcuResourceSpec{Driver: s.component(driver, "v1"), GFD: s.component(gfd, "v1")}}
	s.create(ctx, t, gr)
	rollout := func() *topsv1.DaemonRolloutStatus {
		var r topsv1.DaemonRollout
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, &r); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return &r.Status
	}
	s.shows(ctx, t, name, "deployed and known to be good", func(gr *topsv1.GcuResource) bool {
		good := rollout().LastKnownGood
		return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ReadyResource == "2/2" && good != nil && len(good.Targets) == 2
	})
	good := rollout().LastKnownGood
	drivers, others := s.podsOf(ctx, t, driver), s.podsOf(ctx, t, gfd)
	at := func(version string) *topsv1.GcuResource {
		wanted := gr.DeepCopy()
		wanted.Spec.Driver.Version = version
		return wanted
	}
	gives, applied := s.tool(ctx, t, at(bad))
	s.keep(ctx, t, "operating.yaml", func() error {
		if !slices.ContainsFunc(s.upgrades(ctx, t), func(u topsv1.NodeUpgrade) bool {
			return u.Status.Operation != nil && u.Status.Operation.Task == u.Name+"_driver_replace" && len(u.RequestedTasks()) > 0
		}) {
			return errors.New("no driver is being replaced")
		}
		return nil
	})
	s.shows(ctx, t, name, "rolling back", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRollbacking && strings.HasPrefix(action(gr, topsv1.ActionRollback), topsv1.PhaseRollbacking+"/")
	})
	isBack := func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && action(gr, topsv1.ActionRollback) == "success/success" &&
			meta.IsStatusConditionTrue(rollout().Conditions, topsv1.RolloutComplete) && gr.Status.ObservedGeneration == gr.Generation
	}
	got := s.shows(ctx, t, name, "back", isBack)
	s.keep(ctx, t, "rolled-back.yaml", nil)
	if got.Spec.Driver.Version != bad || action(got, topsv1.ActionUpgrade) != "failed/RolledBack" || action(got, topsv1.ConditionStalled) != "True/RevisionRejected" {
		t.Errorf("version %s, conditions %+v, want the version of the tool, stalled", got.Spec.Driver.Version, got.Status.Conditions)
	}
	rb := rollout().Rollback
	if rb == nil || rb.GcuResourceRevision != good.GcuResourceRevision || rb.CompletedTime == nil || rollout().Revision != good.Revision {
		t.Errorf("rollback %+v, want it to %+v, where the group is", rb, good)
	}
	driversBack, before := s.podsOf(ctx, t, driver), applied()
	s.eventually(ctx, t, func() error {
		if n := applied() - before; n < 5 {
			return fmt.Errorf("the tool applied the bad spec %d times since", n)
		}
		return nil
	})
	if now := s.shows(ctx, t, name, "still back", isBack); now.Generation != got.Generation || survivors(driversBack, s.podsOf(ctx, t, driver)) != len(driversBack) ||
		!rollout().Rollback.Time.Equal(&rb.Time) {
		t.Errorf("generation %d, then %d; %d of %d drivers kept; rollback %+v", got.Generation, now.Generation,
			survivors(driversBack, s.podsOf(ctx, t, driver)), len(driversBack), rollout().Rollback)
	}
	if left := survivors(drivers, s.podsOf(ctx, t, driver)); left != stageNodes-2 {
		t.Errorf("%d driver pods were kept, want all except the 2 that failed", left)
	}
	if left := survivors(others, s.podsOf(ctx, t, gfd)); left != stageNodes-2 {
		t.Errorf("%d gfd pods were kept, want all except the 2 on nodes whose driver was replaced", left)
	}

	gives(at("v2"))
	s.shows(ctx, t, name, "upgraded", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && action(gr, topsv1.ActionUpgrade) == "success/success"
	})
	gives(nil)
	if _, err := s.Kubectl(ctx, "annotate", "gr", name, topsv1.AnnotationRollbackTo+"=previous"); err != nil {
		t.Fatal(err)
	}
	s.shows(ctx, t, name, "back by hand", func(gr *topsv1.GcuResource) bool {
		return gr.Spec.Driver.Version == "v1" && gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ObservedGeneration == gr.Generation &&
			action(gr, topsv1.ActionRollback) == "success/success"
	})
	if err := s.Client.Delete(ctx, gr); err != nil {
		t.Fatal(err)
	}
	s.eventually(ctx, t, func() error {
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &topsv1.GcuResource{}); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("gr %s is still there", name), err)
		}
		var left appsv1.ControllerRevisionList
		if err := s.Client.List(ctx, &left, client.MatchingLabels{topsv1.LabelGcuResource: name}); err != nil || len(left.Items) > 0 {
			return errors.Join(fmt.Errorf("%d revisions of its spec are left", len(left.Items)), err)
		}
		return nil
	})
}
