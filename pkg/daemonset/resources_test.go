package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestResourcesThatAPluginNames(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  []corev1.ResourceName
	}{{"", nil}, {"a.com/x", []corev1.ResourceName{"a.com/x"}}, {" a.com/x,, b.com/y ", []corev1.ResourceName{"a.com/x", "b.com/y"}}} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "OTHER", Value: "c.com/z"}, {Name: VariableOfResources, Value: tt.value}}}}}
		if diff := cmp.Diff(tt.want, FurtherResources(&spec)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.value, diff)
		}
	}
}

func TestSharesPerCard(t *testing.T) {
	for value, want := range map[string]int64{"": 0, "6": 6, "six": 0, "-1": 0} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "OTHER", Value: "3"}, {Name: "SLICE_COUNT", Value: value}}}}}
		if got := SharesPerCard(&spec); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}
