package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func controller(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &isController}
}

// revision returns a ControllerRevision of the DaemonSet with this UID.
func revision(owner types.UID, number int64, hash string) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{Revision: number}
	r.OwnerReferences = []metav1.OwnerReference{controller("apps/v1", "DaemonSet", "driver", owner)}
	if hash != "" {
		r.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}
	}
	return r
}

func TestTargetRevision(t *testing.T) {
	tests := []struct {
		name       string
		generation int64
		observed   int64
		revisions  []*appsv1.ControllerRevision
		want       string
		wantErr    string
	}{
		{name: "is the hash of the only revision", generation: 1, observed: 1,
			revisions: []*appsv1.ControllerRevision{revision("u", 1, "v1")}, want: "v1"},
		{name: "is the newest by number, not by place in the list", generation: 3, observed: 3,
			revisions: []*appsv1.ControllerRevision{revision("u", 2, "v2"), revision("u", 10, "v10"), revision("u", 9, "v9")}, want: "v10"},
		{name: "after a rollback is the old revision with its new number", generation: 3, observed: 3,
			revisions: []*appsv1.ControllerRevision{revision("u", 3, "v1"), revision("u", 2, "v2")}, want: "v1"},
		{name: "does not look at revisions of an earlier DaemonSet of the same name", generation: 1, observed: 1,
			revisions: []*appsv1.ControllerRevision{revision("earlier", 7, "v7"), revision("u", 1, "v1")}, want: "v1"},
		{name: "does not look at revisions without an owner", generation: 1, observed: 1,
			revisions: []*appsv1.ControllerRevision{{Revision: 9}, revision("u", 1, "v1")}, want: "v1"},
		{name: "is not known while the template is newer than what the controller saw", generation: 2, observed: 1,
			revisions: []*appsv1.ControllerRevision{revision("u", 1, "v1")},
			wantErr:   "the DaemonSet controller has observed generation 1 of kube-system/driver, not yet 2"},
		{name: "is not known before the first revision", generation: 1, observed: 1,
			wantErr: "DaemonSet kube-system/driver has no ControllerRevision yet"},
		{name: "is not known when only others have revisions", generation: 1, observed: 1,
			revisions: []*appsv1.ControllerRevision{revision("earlier", 1, "v1")},
			wantErr:   "DaemonSet kube-system/driver has no ControllerRevision yet"},
		{name: "never falls back to an older revision when the newest has no hash", generation: 1, observed: 1,
			revisions: []*appsv1.ControllerRevision{revision("u", 1, "v1"), revision("u", 2, "")},
			wantErr:   "DaemonSet kube-system/driver has no ControllerRevision yet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", UID: "u", Generation: tt.generation},
				Status:     appsv1.DaemonSetStatus{ObservedGeneration: tt.observed},
			}
			got, err := TargetRevision(ds, tt.revisions)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if got != tt.want || message != tt.wantErr {
				t.Errorf("TargetRevision = %q, error %q, want %q, error %q", got, message, tt.want, tt.wantErr)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	other := controller("apps/v1", "DaemonSet", "driver", "u")
	other.Controller = nil
	tests := []struct {
		name string
		refs []metav1.OwnerReference
		want types.UID
	}{
		{"a pod of a DaemonSet", []metav1.OwnerReference{controller("apps/v1", "DaemonSet", "driver", "u")}, "u"},
		{"a pod whose owner has a name that no object can have", []metav1.OwnerReference{controller("apps/v1", "DaemonSet", "a/b", "u")}, ""},
		{"a pod of a ReplicaSet", []metav1.OwnerReference{controller("apps/v1", "ReplicaSet", "driver", "u")}, ""},
		{"a pod of another kind called DaemonSet", []metav1.OwnerReference{controller("apps.kruise.io/v1alpha1", "DaemonSet", "driver", "u")}, ""},
		{"a pod that a DaemonSet owns but does not control", []metav1.OwnerReference{other}, ""},
		{"a pod of nobody", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got types.UID
			if ref := Owner(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tt.refs}}); ref != nil {
				got = ref.UID
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("UID of the owner (-want +got):\n%s", diff)
			}
		})
	}
}
