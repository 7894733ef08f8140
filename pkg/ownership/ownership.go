// Package ownership reads which DaemonSets are the operator's: a GcuResource (gr) controls them, by UID,
// and its spec, or a kept one, gives them their namespace and name. Labels and owners alone may be
// anyone's, where no admission policy bounds them. Package revision decides. It also reads what a DaemonSet selects.
package ownership

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Reader reads what grs and their kept specs say of DaemonSets.
type Reader struct {
	// Reader reads first, with or without a cache.
	client.Reader
	// Live reads past the cache the kept specs that it lacks.
	Live client.Reader
	// Namespace is the operator's, in which the specs are kept.
	Namespace string
}

// KeptSpecs reads the kept specs of a gr in the operator's namespace.
func KeptSpecs(ctx context.Context, from client.Reader, namespace string, gr *topsv1.GcuResource) (*revision.History, error) {
	var list appsv1.ControllerRevisionList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the kept specs of GcuResource %s: %w", gr.Name, err)
	}
	return revision.NewHistory(gr, list.Items)
}

// CreatedBy returns those of the DaemonSets that a gr controls which it created.
func (r Reader) CreatedBy(ctx context.Context, gr *topsv1.GcuResource, controlled []*appsv1.DaemonSet) ([]*appsv1.DaemonSet, error) {
	kept := func(from client.Reader) func() (*revision.History, error) {
		return func() (*revision.History, error) { return KeptSpecs(ctx, from, r.Namespace, gr) }
	}
	return revision.CreatedBy(gr, controlled, kept(r.Reader), kept(r.Live))
}

// DaemonSets returns the DaemonSets of components that grs made, as from lists them.
func (r Reader) DaemonSets(ctx context.Context, from client.Reader) (made []*appsv1.DaemonSet, err error) {
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GcuResources: %w", err)
	}
	var list appsv1.DaemonSetList
	if err := from.List(ctx, &list, client.HasLabels{topsv1.LabelComponent}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	for i := range grs.Items {
		var controlled []*appsv1.DaemonSet
		for j := range list.Items {
			if ds := &list.Items[j]; daemonset.IsOf(ds, &grs.Items[i]) {
				controlled = append(controlled, ds)
			}
		}
		ours, err := r.CreatedBy(ctx, &grs.Items[i], controlled)
		if err != nil {
			return nil, err
		}
		made = slices.Concat(made, ours)
	}
	return made, nil
}

// FurtherResources returns the resources under which device plugins among the DaemonSets offer cards by names of
// the user, nil for none.
func FurtherResources(sets []*appsv1.DaemonSet) (further []corev1.ResourceName) {
	for _, ds := range sets {
		further = append(further, daemonset.FurtherResources(&ds.Spec.Template.Spec)...)
	}
	return further
}

// HeldResources returns the resources under which pods may hold cards, nil for none: FurtherResources, and those of the kept
// revisions of the device plugins and of the kept specs of all grs. A pod keeps its cards when the plugin's template gets other
// names, or its DaemonSet is deleted; the revision of a plugin's pod that still runs is always kept. A revision that cannot be
// read names none. The revisions of each device plugin are returned too, by UID.
func (r Reader) HeldResources(ctx context.Context, sets []*appsv1.DaemonSet) (held []corev1.ResourceName, kept map[types.UID][]*appsv1.ControllerRevision, err error) {
	held, kept = FurtherResources(sets), map[types.UID][]*appsv1.ControllerRevision{}
	for _, ds := range sets {
		if !operation.OffersCards(daemonset.Component(ds)) {
			continue
		}
		var list appsv1.ControllerRevisionList
		if err := ListSelected(ctx, r, &list, ds, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			revision := &list.Items[i]
			kept[ds.UID] = append(kept[ds.UID], revision)
			if metav1.IsControlledBy(revision, ds) {
				held = append(held, daemonset.FurtherResourcesOf(revision)...)
			}
		}
	}
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing GcuResources: %w", err)
	}
	for i := range grs.Items {
		specs, err := KeptSpecs(ctx, r, r.Namespace, &grs.Items[i])
		if err != nil {
			return nil, nil, err
		}
		held = append(held, specs.FurtherResources()...)
	}
	slices.Sort(held)
	return slices.Compact(held), kept, nil
}

// UIDs returns the UIDs of the DaemonSets of certain components.
func UIDs(sets []*appsv1.DaemonSet, components []string) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, ds := range sets {
		if slices.Contains(components, daemonset.Component(ds)) {
			uids[ds.UID] = true
		}
	}
	return uids
}
