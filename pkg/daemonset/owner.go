package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GcuResourceOwner returns the reference of an object to the GcuResource that controls it, nil
// if there is none. Only that makes it one of ours: labels may be anyone's, and config/admission
// keeps others from setting the reference.
func GcuResourceOwner(o metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != topsv1.GcuResourceKind || ref.APIVersion != topsv1.GroupVersion.String() {
		return nil
	}
	return ref
}

// IsOf reports whether a GcuResource controls an object. An object whose owner only has its UID, under
// another kind, is not of it: config/admission does not keep others from setting that.
func IsOf(o, gr metav1.Object) bool {
	ref := GcuResourceOwner(o)
	return ref != nil && ref.UID == gr.GetUID()
}

// Component returns the key of a DaemonSet in the spec of the GcuResource that controls it, "" if
// none does.
func Component(ds *appsv1.DaemonSet) string {
	if GcuResourceOwner(ds) == nil {
		return ""
	}
	return ds.Labels[topsv1.LabelComponent]
}
