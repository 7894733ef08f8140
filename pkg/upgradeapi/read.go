package upgradeapi

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// reads serves the read-only endpoints.
type reads struct {
	*cluster
	cache *objectCache
}

// list returns all grs.
func (r *reads) list(ctx context.Context, _ call) (any, error) {
	return r.cluster.list(ctx, grKind)
}

// get returns a gr.
func (r *reads) get(ctx context.Context, c call) (any, error) {
	if gr := r.cache.gr(ctx, c.name); gr != nil {
		return r.cache.encode(gr, grKind)
	}
	return r.object(ctx, grKind, client.ObjectKey{Name: c.name})
}

// component returns the DaemonSet of one component of a gr (contract statements
// 63, 64 and 68).
func (r *reads) component(ctx context.Context, c call) (any, error) {
	component, err := request.Component(c.kind)
	if err != nil {
		return nil, err
	}
	labels := client.MatchingLabels{topsv1.LabelGcuResource: c.name, topsv1.LabelComponent: component}
	if ds := r.cache.daemonSet(ctx, c.name, labels); ds != nil {
		return r.cache.encode(ds, daemonSetKind)
	}
	owned, err := r.ownedBy(ctx, c.name, daemonSetKind, labels)
	if err != nil {
		return nil, err
	}
	if len(owned.Items) == 0 {
		return nil, apierrors.NewNotFound(daemonSets, c.kind)
	}
	sets := make([]appsv1.DaemonSet, len(owned.Items))
	for i := range owned.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owned.Items[i].Object, &sets[i]); err != nil {
			return nil, fmt.Errorf("decoding DaemonSet %s: %w", owned.Items[i].GetName(), err)
		}
	}
	return &owned.Items[preferred(sets)], nil
}

// rollout returns the DaemonRollout of a gr, not one of another group with its name.
func (r *reads) rollout(ctx context.Context, c call) (any, error) {
	if _, err := r.object(ctx, grKind, client.ObjectKey{Name: c.name}); err != nil {
		return nil, err
	}
	shown, err := r.object(ctx, rolloutKind, client.ObjectKey{Namespace: r.namespace, Name: c.name})
	if err != nil {
		return nil, err
	}
	rollout := &topsv1.DaemonRollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(shown.Object, rollout); err != nil {
		return nil, fmt.Errorf("decoding DaemonRollout %s: %w", c.name, err)
	}
	if !rollout.BelongsTo(topsv1.GcuResourceKind, c.name) {
		return nil, apierrors.NewNotFound(rollouts, c.name)
	}
	return shown, nil
}

// revisions returns the kept specs of a gr, newest first.
func (r *reads) revisions(ctx context.Context, c call) (any, error) {
	owned, err := r.cluster.revisions(ctx, c.name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(owned.Items, func(x, y unstructured.Unstructured) int {
		first, _, _ := unstructured.NestedInt64(x.Object, "revision")
		second, _, _ := unstructured.NestedInt64(y.Object, "revision")
		return int(second - first)
	})
	return owned, nil
}
