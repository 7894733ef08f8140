package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The template changes again while half of the nodes are updated and two are in flight.
// Each pod is replaced only once more, directly with the third version.
func TestATemplateChangedHalfWayReplacesEachPodOnce(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "template", rolling("2"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 3, 2)
	before := f.uids(ctx)
	if replaced := o.Replaced(); replaced != 5 {
		t.Errorf("the second version replaced %d pods, want 5", replaced)
	}
	o.Reset()
	f.setFree(ctx, "app:3")
	f.complete(ctx, "app:3", stageNodes)
	deletedExactly(t, o, before)
	atMost(t, o, 2)
}

// The strategy changes to OTA and back in the middle of a rollout.
func TestTheStrategyChangesHalfWayToOTAAndBack(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "to-ota", rolling("1"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 2, 1)
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationUpdateStrategy] = "OTA" })
	f.reaches(ctx, "under OTA", func(st *topsv1.DaemonRolloutStatus) bool { return st.Strategy == "OTA" && len(st.InFlight) == 1 })
	f.admit(ctx, "app:2", 1)
	f.reaches(ctx, "waiting for requests", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated == 3 && len(st.InFlight) == 0 && reasonOf(st, topsv1.RolloutProgressing) == "AwaitingRequests"
	})
	f.eventually(ctx, func() error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			want := corev1.ConditionFalse
			if pods[i].Spec.Containers[0].Image == "app:1" {
				want = corev1.ConditionTrue
			}
			if got := conditionOf(&pods[i]); got != want {
				return fmt.Errorf("%s of pod %s with %s is %q, want %q", topsv1.PodNeedUpgrade, pods[i].Name, pods[i].Spec.Containers[0].Image, got, want)
			}
		}
		return nil
	})
	f.undisturbed(ctx, f.uids(ctx))
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate" })
	f.admit(ctx, "app:2", 3)
	f.complete(ctx, "app:2", stageNodes)
	f.allHave(ctx, "")
	atMost(t, o, 1)
	if replaced := o.Replaced(); replaced != stageNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, stageNodes)
	}
}

// In the middle of a rollout the DaemonSet is given another policy, first one that does
// not exist.
func TestAPolicyChangedHalfWayBindsAtOnce(t *testing.T) {
	s, ctx := enter(t)
	for name, most := range map[string]int32{"narrow": 1, "wide": 3} {
		s.policy(ctx, t, name, topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(most))})
	}
	f := newDaemonSet(ctx, t, s, "other-policy", s.underPolicy("narrow"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 1, 1)
	atMost(t, o, 1)
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationUpgradePolicy] = "missing" })
	f.reaches(ctx, "blocked", func(st *topsv1.DaemonRolloutStatus) bool {
		return reasonOf(st, topsv1.RolloutAccepted) == "UpgradePolicyNotFound"
	})
	f.admit(ctx, "app:2", 1)
	f.undisturbed(ctx, f.uids(ctx))
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationUpgradePolicy] = s.name("wide") })
	f.isAt(ctx, "app:2", 2, 3)
	// An edited policy takes effect too: from here on one by one.
	s.editPolicy(ctx, t, "wide", func(spec *topsv1.UpgradePolicySpec) { spec.MaxUnavailable = ptr.To(intstr.FromInt32(1)) })
	f.reaches(ctx, "under the edited policy", func(st *topsv1.DaemonRolloutStatus) bool { return st.MaxUnavailable == 1 })
	f.admit(ctx, "app:2", 2)
	f.isAt(ctx, "app:2", 4, 1)
	f.admit(ctx, "app:2", 2)
	f.complete(ctx, "app:2", stageNodes)
	atMost(t, o, 3)
}

// The update strategy changes to RollingUpdate in the middle of a rollout. The operator
// stops and reports it, and continues when it is OnDelete again. Meanwhile Kubernetes
// itself starts nothing, because the node in flight uses up its budget of one.
func TestAnUpdateTypeChangedHalfWayStopsUsUntilItIsOnDeleteAgain(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "other-type", rolling("2"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 2, 2)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
		}
	})
	f.reaches(ctx, "refused", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionFalse(st.Conditions, topsv1.RolloutAccepted) && reasonOf(st, topsv1.RolloutAccepted) == "UpdateTypeNotOnDelete"
	})
	f.admit(ctx, "app:2", 1) // frees a slot, which must not be used
	f.undisturbed(ctx, f.uids(ctx))
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	})
	f.isAt(ctx, "app:2", 3, 2)
	f.admit(ctx, "app:2", 3)
	f.complete(ctx, "app:2", stageNodes)
	atMost(t, o, 2)
	if replaced := o.Replaced(); replaced != stageNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, stageNodes)
	}
}
