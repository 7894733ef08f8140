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
	"github.com/topsops/gcu-operator/test/harness"
)

// backByItself is the name of a policy with failure.action Rollback.
const backByItself = "back-by-itself"

// rollingBack are the annotations of a target that goes back by itself.
func rollingBack(maxUnavailable string) map[string]string {
	annotations := rolling(maxUnavailable)
	annotations[topsv1.AnnotationUpgradePolicy] = backByItself
	return annotations
}

// create makes an object that goes when the test ends.
func (s *scenarios) create(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := s.Client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(s.Client.Delete(context.WithoutCancel(ctx), object)); err != nil {
			t.Error(err)
		}
	})
}

func (s *scenarios) policyBackByItself(ctx context.Context, t *testing.T) {
	t.Helper()
	s.create(ctx, t, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: backByItself},
		Spec: topsv1.UpgradePolicySpec{Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollback}, Validation: &topsv1.ValidationPolicy{SoakSeconds: 1}}})
}

// survivors counts those of before that are among now.
func survivors(before, now map[types.UID]bool) int {
	n := 0
	for uid := range before {
		if now[uid] {
			n++
		}
	}
	return n
}

// daemonSetGoesBack: a bad version of a DaemonSet halts and is rolled back
// without anybody; the pods it did not reach are not touched. It is rolled back
// again when it is applied again, also when the manager is killed meanwhile.
func (s *scenarios) daemonSetGoesBack(ctx context.Context, t *testing.T) {
	s.policyBackByItself(ctx, t)
	f := newDaemonSet(ctx, t, s.Cluster, "goes-back", rollingBack("2"))
	good := f.reaches(ctx, "known to be good", func(st *topsv1.DaemonRolloutStatus) bool { return st.LastKnownGood != nil })
	before := f.uids(ctx)
	o := f.observe(ctx)
	bad := func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
		ds.Spec.Template.Labels["testcluster/behaviour"] = "crash-loop"
	}
	f.change(ctx, bad)
	r := f.reaches(ctx, "rolled back", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Rollback != nil && st.Rollback.CompletedTime != nil
	})
	f.complete(ctx, "app:1", scenarioNodes)
	if left := survivors(before, f.uids(ctx)); left != scenarioNodes-2 {
		t.Errorf("%d pods are those of before, want all but the 2 that failed", left)
	}
	if deleted, most := o.Replaced(), o.Most(); deleted != 4 || most > 2 {
		t.Errorf("%d pods were deleted, %d nodes down at once, want the old pods and the bad ones of the 2 nodes that failed", deleted, most)
	}
	first := r.Status.Rollback
	if first.To != good.Status.LastKnownGood.Revision || r.Status.Revision != first.To || !strings.Contains(first.Message, "2 of 2 started nodes failed") {
		t.Errorf("rollback %+v, want it to %s, where the group is", first, good.Status.LastKnownGood.Revision)
	}
	f.eventually(ctx, func() error {
		described, err := s.Kubectl(ctx, "describe", "daemonset", f.name)
		for _, event := range []string{"RollingBack", "RolledBack"} {
			if err == nil && !strings.Contains(described, event) {
				err = fmt.Errorf("kubectl describe does not show an event %s:\n%s", event, described)
			}
		}
		return err
	})

	f.change(ctx, bad)
	f.reaches(ctx, "rolling back again", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Rollback != nil && !st.Rollback.Time.Equal(&first.Time)
	})
	s.manager.Kill()
	s.startManager(ctx, t)
	f.reaches(ctx, "rolled back again", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Rollback != nil && st.Rollback.CompletedTime != nil && !st.Rollback.Time.Equal(&first.Time)
	})
	f.complete(ctx, "app:1", scenarioNodes)
	if most := o.Most(); most > 2 {
		t.Errorf("%d nodes were down at once, allowed are 2", most)
	}
}

// badImagesCrash makes every pod with an image of the version "bad" crash-loop:
// the templates of a gr have no place for the label the test cluster looks at.
func (s *scenarios) badImagesCrash(ctx context.Context, t *testing.T) {
	t.Helper()
	const name = "bad-images-crash"
	s.create(ctx, t, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}},
		MatchConditions:    []admissionv1.MatchCondition{{Name: "bad", Expression: "object.spec.containers.exists(c, c.image.endsWith(':bad'))"}},
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: `Object{metadata: Object.metadata{labels: {"testcluster/behaviour": "crash-loop"}}}`}}},
		FailurePolicy: ptr.To(admissionv1.Fail),
	}})
	s.create(ctx, t, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
	s.eventually(ctx, t, func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:bad"}}}}
		if err := s.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Labels["testcluster/behaviour"] == "" {
			return fmt.Errorf("policy %s is not in force", name)
		}
		return nil
	})
}

func (s *scenarios) eventually(ctx context.Context, t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := harness.Eventually(ctx, check); err != nil {
		t.Fatal(err)
	}
}

// shows waits until a gr is as wanted and returns it.
func (s *scenarios) shows(ctx context.Context, t *testing.T, name, what string, is func(*topsv1.GcuResource) bool) *topsv1.GcuResource {
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
func (s *scenarios) podsOf(ctx context.Context, t *testing.T, daemonSet string) map[types.UID]bool {
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

// gcuResourceGoesBack: a bad driver in a gr halts; the operator restores the
// spec of before, and the driver is put back on the nodes it failed on. Then a
// person goes back by hand.
func (s *scenarios) gcuResourceGoesBack(ctx context.Context, t *testing.T) {
	const name, driver, exporter = "goes-back", "enflame-gcu-driver", "enflame-gcu-exporter"
	s.policyBackByItself(ctx, t)
	s.badImagesCrash(ctx, t)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: rollingBack("2")},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "v1"}, Exporter: &topsv1.BaseFields{}}}
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
	drivers, exporters := s.podsOf(ctx, t, driver), s.podsOf(ctx, t, exporter)
	version := func(version string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"driver":{"version":%q}}}`, version))
		if err := s.Client.Patch(ctx, gr.DeepCopy(), patch); err != nil {
			t.Fatal(err)
		}
	}
	version("bad")
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
	if left := survivors(drivers, s.podsOf(ctx, t, driver)); left != scenarioNodes-2 {
		t.Errorf("%d driver pods are those of before, want all but the 2 that failed", left)
	}
	if left := survivors(exporters, s.podsOf(ctx, t, exporter)); left != scenarioNodes-2 {
		t.Errorf("%d exporter pods are those of before, want all but the 2 beside a driver that was replaced", left)
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
