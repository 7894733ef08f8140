package gcuresource

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestPoliciesThatMakeNoSenseAreRefused(t *testing.T) {
	amount := func(v string) *intstr.IntOrString { return ptr.To(intstr.Parse(v)) }
	for _, tt := range []struct {
		name string
		spec topsv1.UpgradePolicySpec
		says string
	}{
		{"a budget of nothing", topsv1.UpgradePolicySpec{MaxUnavailable: amount("0")}, "at least 1"},
		{"a budget of more than everything", topsv1.UpgradePolicySpec{MaxUnavailable: amount("101%")}, "1% to 100%"},
		{"a wave with a selector and a size", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "a", Size: amount("1"), Selector: &metav1.LabelSelector{}}}}, "either a selector or a size"},
		{"a wave with neither", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "a"}}}, "either a selector or a size"},
		{"two waves of one name", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "a", Size: amount("1")}, {Name: "a", Size: amount("2")}}}, "same name"},
		{"a wave named as the nodes that are in none", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "rest", Size: amount("100%")}}}, "in no wave"},
		{"a window that starts at no time of day", topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{
			Start: "25:00", DurationMinutes: 60}}, "spec.window.start"},
		{"contract 97: versions of what does not run on nodes", topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{Steps: []topsv1.VersionStep{
			{Component: "volcano", From: "1.4.x", To: "1.5.x"}}}}, "spec.versions.steps[0].component"},
		{"contract 97: a range that is none", topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{Steps: []topsv1.VersionStep{
			{Component: "driver", From: "1.4.x", To: "~1.5"}}}}, "spec.versions.steps[0].to"},
		{"contract 97: a fit that requires nothing", topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{Fit: []topsv1.VersionFit{
			{Component: "driver", Version: "1.4.x"}}}}, "a fit requires components, a kernel or a nodeSelector"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: tt.spec}
			err := testClient(t).Create(context.Background(), policy, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("creating it: %v; want it refused with a message with %q", err, tt.says)
			}
		})
	}
}
