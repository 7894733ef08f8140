package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// upToDate reports whether an object needs no apply: it exists and is CreateOnly, or the same
// content was applied before and the object has not changed since.
func upToDate(d *component.Desired, live *metav1.PartialObjectMetadata, applied map[types.UID]state.Applied) bool {
	if live == nil {
		return false
	}
	if d.Ref.CreateOnly() {
		return true
	}
	last, ok := applied[live.UID]
	if !ok || last.Hash != d.Hash {
		return false
	}
	if last.Generation == 0 {
		return live.ResourceVersion == last.ResourceVersion
	}
	// An older generation means a cache that does not show our apply yet. The generation does not
	// count changes of metadata, so that is compared.
	return live.Generation <= last.Generation && carries(live, d)
}

// carries reports whether the labels, annotations and owner of a Desired are on the object.
func carries(live *metav1.PartialObjectMetadata, d *component.Desired) bool {
	if !includes(live.Labels, d.Object.GetLabels()) || !includes(live.Annotations, d.Object.GetAnnotations()) {
		return false
	}
	want, have := metav1.GetControllerOf(d.Object), metav1.GetControllerOf(live)
	return want == nil || (have != nil && have.UID == want.UID)
}

func includes(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
