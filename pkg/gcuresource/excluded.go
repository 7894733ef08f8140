package gcuresource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// excludedReader finds the workloads of other grs that components of a gr exclude.
type excludedReader struct {
	client.Reader
	namespace string // the operator's
}

// read returns the workloads of other grs that exclude a component of this one.
func (r excludedReader) read(ctx context.Context, gr *topsv1.GcuResource, others []topsv1.GcuResource) ([]state.ExcludedWorkload, error) {
	var found []state.ExcludedWorkload
	for _, name := range component.Requested(&gr.Spec) {
		for _, excluded := range component.Find(name).Excludes {
			workloads, err := r.workloadsOf(ctx, excluded)
			if err != nil {
				return nil, err
			}
			for _, o := range workloads {
				owner, err := r.creatorOf(ctx, o, excluded, others)
				if err != nil {
					return nil, err
				}
				if owner != nil {
					found = append(found, state.ExcludedWorkload{Ref: component.RefOf(o), Component: excluded, GcuResource: owner.Name})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b state.ExcludedWorkload) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return found, nil
}

// workloadsOf returns the DaemonSets and Deployments with the label of a component, of any owner.
func (r excludedReader) workloadsOf(ctx context.Context, name string) (workloads []client.Object, err error) {
	for _, list := range []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}} {
		if err := r.List(ctx, list, client.MatchingLabels{topsv1.LabelComponent: name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing workloads of component %s: %w", name, err)
		}
		if err := each(list, func(o client.Object) { workloads = append(workloads, o) }); err != nil {
			return nil, err
		}
	}
	return workloads, nil
}

// creatorOf returns the gr that created a workload of a component, nil if none of these did. That gr controls the
// workload, by UID, and its spec, or a kept one, gives the workload this namespace and name. Labels and owners
// alone prove nothing where no admission policy bounds who may set them.
func (r excludedReader) creatorOf(ctx context.Context, o client.Object, name string, grs []topsv1.GcuResource) (*topsv1.GcuResource, error) {
	owner := daemonset.GcuResourceOwner(o)
	i := slices.IndexFunc(grs, func(gr topsv1.GcuResource) bool { return owner != nil && gr.UID == owner.UID })
	if i < 0 {
		return nil, nil
	}
	h, err := ownership.KeptSpecs(ctx, r.Reader, r.namespace, &grs[i])
	if err != nil {
		return nil, err
	}
	for _, spec := range slices.AppendSeq([]*topsv1.GcuResourceSpec{&grs[i].Spec}, maps.Values(h.Specs())) {
		places, err := component.WorkloadRefs(spec, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(places, component.RefOf(o)) {
			return &grs[i], nil
		}
	}
	return nil, nil
}
