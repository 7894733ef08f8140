package daemonset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Anybody may set a label; only a gr that controls a DaemonSet makes it a component.
func TestALabelAloneMakesNoComponent(t *testing.T) {
	yes := true
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{topsv1.LabelComponent: "driver"}}}
	if got := Component(ds); got != "" {
		t.Errorf("component %q of no gr", got)
	}
	ds.OwnerReferences = []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "fleet", UID: "u", Controller: &yes}}
	if got := Component(ds); got != "driver" {
		t.Errorf("component %q", got)
	}
}
