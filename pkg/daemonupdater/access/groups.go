package access

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
)

// Orphans returns the NodeUpgrades that may have requests for a DaemonSet that is gone: for the group of a DaemonSet
// all NodeUpgrades, for the group of a node its own, for a GcuResource none. Errors are those of the cache.
func (c Cluster) Orphans(ctx context.Context, g observed.Group) ([]topsv1.NodeUpgrade, error) {
	switch g.Kind {
	case observed.KindDaemonSet:
		var upgrades topsv1.NodeUpgradeList
		if err := c.List(ctx, &upgrades); err != nil {
			return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
		}
		return upgrades.Items, nil
	case observed.KindNode:
		var upgrade topsv1.NodeUpgrade
		if err := c.Get(ctx, client.ObjectKey{Name: g.Name}, &upgrade); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("getting NodeUpgrade %s: %w", g.Name, err)
		}
		return []topsv1.NodeUpgrade{upgrade}, nil
	}
	return nil, nil
}

// IsGone reports whether the cache has no DaemonSet with the name and UID of a reference.
func (c Cluster) IsGone(ctx context.Context, ref topsv1.NamespacedRef) bool {
	var ds appsv1.DaemonSet
	err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &ds, client.UnsafeDisableDeepCopy)
	return apierrors.IsNotFound(err) || err == nil && ds.UID != ref.UID
}

// GcuResource returns the GcuResource of a group, an empty one if there is none. Errors are those
// of the cache.
func (c Cluster) GcuResource(ctx context.Context, g observed.Group) (gr topsv1.GcuResource, err error) {
	if g.Kind != observed.KindGcuResource {
		return gr, nil
	}
	err = c.Get(ctx, client.ObjectKey{Name: g.Name}, &gr, client.UnsafeDisableDeepCopy)
	if denial.IgnoreNotFound(err) != nil {
		return gr, fmt.Errorf("getting GcuResource %s: %w", g.Name, err)
	}
	return gr, nil
}
