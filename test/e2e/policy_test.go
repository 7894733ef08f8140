package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func (s *scenarios) policyRefused(ctx context.Context, t *testing.T) {
	percent := func(v string) *intstr.IntOrString { return ptr.To(intstr.Parse(v)) }
	tests := []struct {
		name string
		spec topsv1.UpgradePolicySpec
		says string
	}{
		{"a budget of nothing", topsv1.UpgradePolicySpec{MaxUnavailable: percent("0")}, "at least 1"},
		{"a budget of more than everything", topsv1.UpgradePolicySpec{MaxUnavailable: percent("101%")}, "1% to 100%"},
		{"a wave with a selector and a size", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "a", Size: percent("1"), Selector: &metav1.LabelSelector{}}}}, "either a selector or a size"},
		{"a wave with neither", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "a"}}}, "either a selector or a size"},
		{"two waves of one name", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "a", Size: percent("1")}, {Name: "a", Size: percent("2")}}}, "same name"},
		{"a wave named as the nodes that are in none", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "rest", Size: percent("100%")}}}, "in no wave"},
		{"a window that starts at no time of day", topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{
			Start: "25:00", DurationMinutes: 60}}, "spec.window.start"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := s.Client.Create(ctx, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: tt.spec})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("creating it: %v; want it refused with a message with %q", err, tt.says)
			}
		})
	}
}

// waves: nothing happens before the policy is there; then the first wave goes,
// the second waits for a person, and the rest follows.
func (s *scenarios) waves(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "waves", map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy: "waves",
	})
	o := f.observe(ctx)
	before := f.uids(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "blocked", func(st *topsv1.DaemonRolloutStatus) bool {
		return reasonOf(st, topsv1.RolloutAccepted) == "UpgradePolicyNotFound"
	})
	f.staysAs(ctx, before)
	s.policy(ctx, t, "waves", topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(3)),
		Waves: []topsv1.Wave{
			{Name: "canary", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": "node-0002"}}},
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
		if is := pods[i].Spec.Containers[0].Image == "app:2"; is != (pods[i].Spec.NodeName == "node-0002") {
			t.Errorf("pod on %s runs %s", pods[i].Spec.NodeName, pods[i].Spec.Containers[0].Image)
		}
	}
	f.staysAs(ctx, f.uids(ctx))
	approval := fmt.Sprintf("%s=%s/half", topsv1.AnnotationApprovedWaves, r.Status.Revision)
	if _, err := s.Kubectl(ctx, "annotate", "dro", f.name, approval); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", scenarioNodes)
	if most := o.Most(); most > 3 {
		t.Errorf("%d nodes were down at once, allowed are 3", most)
	}
}

// policy creates an UpgradePolicy that ends with the test.
func (s *scenarios) policy(ctx context.Context, t *testing.T, name string, spec topsv1.UpgradePolicySpec) {
	t.Helper()
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if err := s.Client.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Client.Delete(context.WithoutCancel(ctx), policy); err != nil {
			t.Error(err)
		}
	})
}

// editPolicy changes an UpgradePolicy.
func (s *scenarios) editPolicy(ctx context.Context, t *testing.T, name string, edit func(*topsv1.UpgradePolicySpec)) {
	t.Helper()
	var policy topsv1.UpgradePolicy
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &policy); err != nil {
		t.Fatal(err)
	}
	edit(&policy.Spec)
	if err := s.Client.Update(ctx, &policy); err != nil {
		t.Fatal(err)
	}
}

// underPolicy are the annotations of a DaemonSet that names a policy.
func underPolicy(name string) map[string]string {
	return map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy: name}
}
