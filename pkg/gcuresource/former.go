package gcuresource

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// formerReader reads the pods of DaemonSets that are gone and that an earlier spec of a gr names: no other pod of their
// component is to start beside them, and the gr is not gone before them.
type formerReader struct {
	podReader
	namespace string // the operator's
}

// read reads them if a DaemonSet is to be created, or the gr deleted.
func (r formerReader) read(ctx context.Context, obs *state.Observation) error {
	isCreated := func(c state.Component) bool { return c.PerNode != nil && c.DaemonSet == nil }
	if obs.Resource.DeletionTimestamp == nil && !slices.ContainsFunc(obs.Components, isCreated) {
		return nil
	}
	h, err := ownership.KeptSpecs(ctx, r.Reader, r.namespace, obs.Resource)
	if err != nil {
		return err
	}
	obs.Former = map[string][]*corev1.Pod{}
	known := map[string]bool{}
	for i := range obs.Components {
		if c := &obs.Components[i]; c.PerNode != nil {
			known[c.Name+" "+client.ObjectKeyFromObject(c.PerNode).String()] = true
		}
	}
	for _, spec := range h.Specs() {
		named, err := component.DaemonSets(spec)
		if err != nil {
			return err
		}
		requested := component.Requested(spec)
		for key, name := range named {
			id := name + " " + key.String()
			if known[id] || !slices.Contains(requested, name) {
				continue
			}
			known[id] = true
			pods, err := r.podsLeftOf(ctx, obs, key)
			if err != nil {
				return err
			}
			obs.Former[name] = append(obs.Former[name], pods...)
		}
	}
	return nil
}

// podsLeftOf returns the pods of former DaemonSets of a name, without those of the one that has it now.
func (r formerReader) podsLeftOf(ctx context.Context, obs *state.Observation, key types.NamespacedName) ([]*corev1.Pod, error) {
	present := &appsv1.DaemonSet{}
	if err := r.Get(ctx, key, present, client.UnsafeDisableDeepCopy); denial.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonSet %s: %w", key, err)
	}
	ref := component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: key.Namespace, Name: key.Name}
	return r.podsOf(ctx, ref, obs.Resource, present.UID)
}
