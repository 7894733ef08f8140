package daemonupdater

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestIndexByController(t *testing.T) {
	driver := daemonSet("driver")
	owned := podOn(driver, "a", oldHash)
	notControlled := owned.DeepCopy()
	notControlled.OwnerReferences[0].Controller = nil
	tests := []struct {
		name   string
		object client.Object
		want   []string
	}{
		{"a pod is found by the UID of its DaemonSet, also with its node", owned, []string{"uid-driver", "uid-driver/a"}},
		{"a ControllerRevision too", revisionsOf(driver, newHash)[0], []string{"uid-driver"}},
		{"an object of nobody is not found", &corev1.Pod{}, nil},
		{"an owner that is not the controller finds nothing", notControlled, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, indexByController(tt.object)); diff != "" {
				t.Errorf("indexByController (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPointersAreSortedAndPointIntoTheList(t *testing.T) {
	items := []string{"b", "c", "a"}
	list := pointers(items, func(s *string) string { return *s })
	if diff := cmp.Diff([]string{"a", "b", "c"}, []string{*list[0], *list[1], *list[2]}); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if list[0] != &items[2] {
		t.Error("the first pointer is to a copy")
	}
}

func TestNewRollout(t *testing.T) {
	yes := true
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want *topsv1.DaemonRollout
	}{
		{"of a DaemonSet is owned by it, beside it", daemonSet("driver"), &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", Labels: map[string]string{"app.kubernetes.io/managed-by": "gcu-operator"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "driver", UID: "uid-driver", Controller: &yes}}},
			Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: "driver"}}}},
		{"of a gr is owned by it, in the operator's namespace", ofGcuResource(daemonSet("driver")), &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet", Labels: map[string]string{"app.kubernetes.io/managed-by": "gcu-operator"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "topsops.enflame.com/v1", Kind: "GcuResource", Name: "fleet", UID: "uid-fleet", Controller: &yes}}},
			Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := observed([]memberAndPods{memberWith(tt.ds)})
			if diff := cmp.Diff(tt.want, newRollout(o, o.group.rolloutKey("gcu-system"))); diff != "" {
				t.Errorf("newRollout (-want +got):\n%s", diff)
			}
			if tt.ds.OwnerReferences != nil && tt.ds.OwnerReferences[0].BlockOwnerDeletion == nil {
				t.Error("the owner reference of the DaemonSet was written to")
			}
		})
	}
}
