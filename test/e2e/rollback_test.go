package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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
		ds.Spec.Template.Labels[behaviourLabel] = "crash-loop"
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

// crashing creates a version whose pods crash-loop, because a gr's templates cannot set
// the label that the test cluster reads.
func (s *stage) crashing(ctx context.Context, t *testing.T) (version string) {
	t.Helper()
	version = s.name("crashes")
	name := version
	s.create(ctx, t, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}},
		MatchConditions:    []admissionv1.MatchCondition{{Name: "bad", Expression: fmt.Sprintf("object.spec.containers.exists(c, c.image.endsWith(':%s'))", version)}},
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: `Object{metadata: Object.metadata{labels: {"testcluster/behaviour": "crash-loop"}}}`}}},
		FailurePolicy: ptr.To(admissionv1.Fail),
	}})
	s.create(ctx, t, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
	s.eventually(ctx, t, func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:" + version}}}}
		if err := s.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Labels[behaviourLabel] == "" {
			return fmt.Errorf("policy %s is not in force", name)
		}
		return nil
	})
	return version
}

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

// A bad driver in a gr halts; the operator restores the previous spec, and the old
// driver on the nodes where the new one failed. Then a user rolls back by hand.
func TestABadVersionOfAGcuResourceIsRolledBackAutomatically(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	name, driver, gfd := s.name("gr-back"), s.name("gr-back")+"-driver", s.name("gr-back")+"-gfd"
	annotations, bad := s.goesBack(ctx, t), s.crashing(ctx, t)
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
	version := func(version string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"driver":{"version":%q}}}`, version))
		if err := s.Client.Patch(ctx, gr.DeepCopy(), patch); err != nil {
			t.Fatal(err)
		}
	}
	version(bad)
	s.shows(ctx, t, name, "rolling back", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRollbacking && strings.HasPrefix(action(gr, topsv1.ActionRollback), topsv1.PhaseRollbacking+"/")
	})
	got := s.shows(ctx, t, name, "back", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && action(gr, topsv1.ActionRollback) == "success/success" &&
			meta.IsStatusConditionTrue(rollout().Conditions, topsv1.RolloutComplete)
	})
	if _, asked := got.Annotations[topsv1.AnnotationRollbackTo]; asked || got.Spec.Driver.Version != "v1" || action(got, topsv1.ActionUpgrade) != "failed/RolledBack" {
		t.Errorf("version %s, annotations %v, upgrade %s", got.Spec.Driver.Version, got.Annotations, action(got, topsv1.ActionUpgrade))
	}
	rb := rollout().Rollback
	if rb == nil || rb.GcuResourceRevision != good.GcuResourceRevision || rb.CompletedTime == nil || rollout().Revision != good.Revision {
		t.Errorf("rollback %+v, want it to %+v, where the group is", rb, good)
	}
	if left := survivors(drivers, s.podsOf(ctx, t, driver)); left != stageNodes-2 {
		t.Errorf("%d driver pods were kept, want all except the 2 that failed", left)
	}
	if left := survivors(others, s.podsOf(ctx, t, gfd)); left != stageNodes-2 {
		t.Errorf("%d gfd pods were kept, want all except the 2 on nodes whose driver was replaced", left)
	}

	version("v2")
	s.shows(ctx, t, name, "upgraded", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && action(gr, topsv1.ActionUpgrade) == "success/success"
	})
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
