package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestResourcesThatAPluginNames(t *testing.T) {
	for value, want := range map[string][]corev1.ResourceName{"": nil, "a.com/x": {"a.com/x"}, " a.com/x,, b.com/y ": {"a.com/x", "b.com/y"}} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "OTHER", Value: "c.com/z"}, {Name: VariableOfResources, Value: value}}}}}
		if diff := cmp.Diff(want, FurtherResources(&spec)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}
