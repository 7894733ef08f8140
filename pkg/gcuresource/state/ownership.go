package state

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Older orders grs by age, then by name.
func Older(a, b *topsv1.GcuResource) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Ours reports whether an existing object belongs to the gr: controlled by its UID. Kept objects
// have no owner and belong to any gr if this operator created them, or an administrator installed them.
func Ours(gr *topsv1.GcuResource, ref component.Ref, live metav1.Object) bool {
	if ref.Installed() {
		return true
	}
	if ref.Kept() {
		return live.GetLabels()[topsv1.LabelManagedBy] == topsv1.ManagedBy
	}
	return daemonset.IsOf(live, gr)
}

// ObjectConflict returns the Failure for a foreign object, with what to do about it.
func ObjectConflict(ref component.Ref, live metav1.Object) *Failure {
	owner := "was not created by this operator"
	if c := metav1.GetControllerOf(live); c != nil {
		owner = "belongs to " + c.Kind + " " + c.Name
	}
	remedy := "delete it, or give the component another name or set its notDeploy: true"
	if ref.Kept() { // its name is fixed, and users' objects go with a definition
		remedy = "set notDeploy: true of the component, or, if it is the same, label it " + topsv1.LabelManagedBy + "=" + topsv1.ManagedBy
	}
	return &Failure{Reason: ReasonObjectConflict, Message: ref.String() + " exists and " + owner + ": " + remedy}
}

// IsOfAnother reports whether a DaemonSet of a gr was deployed for another component than this one, which the spec has given
// its name since, and is not one that this one takes the place of.
func IsOfAnother(name string, ds *appsv1.DaemonSet) bool {
	of := component.Find(daemonset.Component(ds))
	return of != nil && of.Name != name && !slices.Contains(of.Excludes, name)
}
