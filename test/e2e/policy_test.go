package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Nothing starts before the policy exists; then the first wave is upgraded, the second
// waits for approval, and the rest follows.
// Contract 95.
func TestWavesFollowOneAnotherAndAManualOneWaitsForAPerson(t *testing.T) {
	s, ctx := enter(t)
	canary := s.nodes[1]
	f := newDaemonSet(ctx, t, s, "waves", s.underPolicy("waves"))
	o := f.observe(ctx)
	before := f.uids(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "blocked", func(st *topsv1.DaemonRolloutStatus) bool {
		return reasonOf(st, topsv1.RolloutAccepted) == "UpgradePolicyNotFound"
	})
	f.undisturbed(ctx, before)
	s.policy(ctx, t, "waves", topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(3)),
		Waves: []topsv1.Wave{
			{Name: "canary", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: canary}}},
			{Name: "half", Size: ptr.To(intstr.FromString("50%")), Approval: topsv1.ApprovalManual},
		},
	})
	r := f.reaches(ctx, "waiting for approval", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated == 1 && reasonOf(st, topsv1.RolloutProgressing) == "AwaitingApproval"
	})
	pods, err := f.pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if is := pods[i].Spec.Containers[0].Image == "app:2"; is != (pods[i].Spec.NodeName == canary) {
			t.Errorf("pod on %s runs %s", pods[i].Spec.NodeName, pods[i].Spec.Containers[0].Image)
		}
	}
	f.undisturbed(ctx, f.uids(ctx))
	approval := fmt.Sprintf("%s=%s/half", topsv1.AnnotationApprovedWaves, r.Status.Revision)
	if _, err := s.Kubectl(ctx, "annotate", "dro", f.name, approval); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", stageNodes)
	atMost(t, o, 3)
}

// policy creates an UpgradePolicy that is deleted at the end of the test.
func (s *stage) policy(ctx context.Context, t *testing.T, name string, spec topsv1.UpgradePolicySpec) {
	t.Helper()
	s.create(ctx, t, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}, Spec: spec})
}

// editPolicy changes an UpgradePolicy.
func (s *stage) editPolicy(ctx context.Context, t *testing.T, name string, edit func(*topsv1.UpgradePolicySpec)) {
	t.Helper()
	var policy topsv1.UpgradePolicy
	if err := s.Client.Get(ctx, client.ObjectKey{Name: s.name(name)}, &policy); err != nil {
		t.Fatal(err)
	}
	edit(&policy.Spec)
	if err := s.Client.Update(ctx, &policy); err != nil {
		t.Fatal(err)
	}
}

// judged waits for the condition, Accepted or Stalled, that the operator sets on a policy as it is now.
func (s *stage) judged(ctx context.Context, t *testing.T, name, condition string) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		var policy topsv1.UpgradePolicy
		if err := s.Client.Get(ctx, client.ObjectKey{Name: s.name(name)}, &policy); err != nil {
			return err
		}
		if policy.Status.ObservedGeneration != policy.Generation || !meta.IsStatusConditionTrue(policy.Status.Conditions, condition) {
			return fmt.Errorf("UpgradePolicy %s is not %s: generation %d, status %+v", name, condition, policy.Generation, policy.Status)
		}
		return nil
	})
}

// underPolicy returns the annotations of a DaemonSet with a policy of the story.
func (s *stage) underPolicy(name string) map[string]string {
	return map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy: s.name(name)}
}
