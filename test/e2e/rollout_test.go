package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

func rolling(maxUnavailable string) map[string]string {
	return map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate",
		topsv1.AnnotationMaxUnavailable: maxUnavailable,
	}
}

// An invalid setting is reported, and nothing is deleted.
func TestAWrongSettingIsReportedAndNothingIsDeleted(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "wrong", rolling("101%"))
	before := f.uids(ctx)
	f.setImage(ctx, "app:2")
	r := f.reaches(ctx, "refused", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionFalse(st.Conditions, topsv1.RolloutAccepted)
	})
	accepted := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutAccepted)
	if accepted.Reason != "InvalidMaxUnavailable" || !strings.Contains(accepted.Message, `"101%"`) {
		t.Errorf("condition is %s: %s; want InvalidMaxUnavailable with the invalid value", accepted.Reason, accepted.Message)
	}
	f.hasEvents(ctx, "InvalidMaxUnavailable")
	f.undisturbed(ctx, before)
}

// hasEvents waits until kubectl describe shows events of the DaemonSet.
func (f *fixture) hasEvents(ctx context.Context, reasons ...string) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		described, err := f.stage.Kubectl(ctx, "describe", "daemonset", f.name)
		for _, reason := range reasons {
			if err == nil && !strings.Contains(described, reason) {
				err = fmt.Errorf("kubectl describe does not show an event %s:\n%s", reason, described)
			}
		}
		return err
	})
}

// Contract 99.
func TestTheKeysOfOpenYurtMeanTheSame(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "openyurt", map[string]string{
		topsv1.OpenYurtAnnotationUpdateStrategy: "auto", topsv1.OpenYurtAnnotationMaxUnavailable: "50%",
	})
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	f.complete(ctx, "app:2", stageNodes)
	if most := o.Most(); most > 3 || most < 2 {
		t.Errorf("at most %d nodes were down at once, want 50%% of %d used and not exceeded", most, stageNodes)
	}
}

func TestABadVersionHaltsAndAGoodOneReplacesIt(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "bad", rolling("2"))
	o := f.observe(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
		ds.Spec.Template.Labels[harness.BehaviorLabel] = "crash-loop"
	})
	r := f.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionTrue(st.Conditions, topsv1.RolloutHalted)
	})
	if r.Status.FailedNodes != 2 || r.Status.Failed[0].Reason != "CrashLooping" {
		t.Errorf("failed = %+v, want two crash-looping nodes", r.Status.Failed)
	}
	f.undisturbed(ctx, f.uids(ctx))
	if replaced := o.Replaced(); replaced != 2 {
		t.Errorf("the bad version replaced %d pods, want it stopped after 2", replaced)
	}
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:good"
		delete(ds.Spec.Template.Labels, "testcluster/behavior")
	})
	f.complete(ctx, "app:good", stageNodes)
	atMost(t, o, 2)
}

func TestAPodStuckInTerminatingCostsOneSlot(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "stuck", rolling("2"))
	o := f.observe(ctx)
	pods, err := f.pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := &pods[0]
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	if err := s.Client.Patch(ctx, held, patch); err != nil {
		t.Fatal(err)
	}
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "done except for the stuck node", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == stageNodes-1 && len(st.InFlight) == 1 && st.InFlight[0].Node == held.Spec.NodeName
	})
	atMost(t, o, 2)
	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.Client.Patch(ctx, held, release); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", stageNodes)
}

// Only Kubernetes' own controller can type-check admission policies.
func TestTheTypesInTheAdmissionPoliciesAreRight(t *testing.T) {
	s, ctx := enter(t)
	policies := strings.Fields(s.kubectl(ctx, t, "get", "validatingadmissionpolicies", "-o", "name"))
	if len(policies) < 8 {
		t.Errorf("policies %v, want all that are shipped", policies)
	}
	for _, policy := range policies {
		s.kubectl(ctx, t, "wait", "--for=jsonpath={.status.observedGeneration}", "--timeout=30s", policy)
		if warnings := s.kubectl(ctx, t, "get", policy, "-o", "jsonpath={.status.typeChecking.expressionWarnings}"); warnings != "" {
			t.Errorf("%s: %s", policy, warnings)
		}
	}
}

// conditionOf returns the status of PodNeedUpgrade, "" if it is absent.
func conditionOf(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == topsv1.PodNeedUpgrade {
			return c.Status
		}
	}
	return ""
}
