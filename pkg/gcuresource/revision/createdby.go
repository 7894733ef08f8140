package revision

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// CreatedBy returns those of the controlled DaemonSets that a gr created: its spec, or a kept spec, gives
// them their namespace and name. The controller reference alone proves nothing where no admission policy
// bounds who may set it. The functions kept read the history, each one only if a DaemonSet is still
// unknown: a cache of revisions may lag behind the cache of DaemonSets, but a spec is kept before its
// objects are created, and as long as one of them exists (Surplus). For a gr that is gone (an empty one)
// all are returned: they are deleted with it.
func CreatedBy(gr *topsv1.GcuResource, controlled []*appsv1.DaemonSet, kept ...func() (*History, error)) ([]*appsv1.DaemonSet, error) {
	if gr.UID == "" {
		return controlled, nil
	}
	known, err := component.DaemonSets(&gr.Spec)
	if err != nil {
		return nil, err
	}
	isUnknown := func(ds *appsv1.DaemonSet) bool { return known[keyOf(ds)] == "" }
	for _, read := range kept {
		if !slices.ContainsFunc(controlled, isUnknown) {
			break
		}
		h, err := read()
		if err != nil {
			return nil, err
		}
		for _, spec := range h.Specs() {
			more, err := component.DaemonSets(spec)
			if err != nil {
				return nil, err
			}
			maps.Copy(known, more)
		}
	}
	return slices.DeleteFunc(slices.Clone(controlled), isUnknown), nil
}
