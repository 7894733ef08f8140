package display

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A digest is shortened in the table, and whole in JSON.
func TestStatusShortensDigests(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for version, want := range map[string]string{"v1": " v1 ", digest: " sha256:0123456789ab ", "v1@" + digest: " v1@sha256:0123456789ab "} {
		gr := &topsv1.GcuResource{Spec: topsv1.GcuResourceSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}, Driver: &topsv1.BaseFields{Version: version}},
			Status: topsv1.GcuResourceStatus{ResourceStatuses: []topsv1.ResourceStatus{{Name: "driver", Status: "Running", Message: "m"}}}}
		s := &Status{Components: componentsOf(gr)}
		if got := s.components(Style{}); !strings.Contains(got, want) {
			t.Errorf("version %s is shown as %s", version, got)
		}
		if s.Components[0].Version != version {
			t.Errorf("version %s is %s in JSON", version, s.Components[0].Version)
		}
	}
}
