package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// metadataKinds are the kinds of owned objects whose state does not matter. Only their metadata
// is cached.
var metadataKinds = []schema.GroupVersionKind{
	admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
}

// each calls a function with every object of a list.
func each(list client.ObjectList, call func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list holds a %T, which is not an object", item)
		}
		call(o)
		return nil
	})
}

// confirm returns a conflict if a gr has another spec or other upgrade settings than the API server has, or is deleted there.
// Nothing is written for an old spec, or deleted at once if it is to leave node by node: the cache of a manager that was suspended,
// or has just become the leader, may be newer about what another one has deployed since.
func confirm(ctx context.Context, live client.Reader, gr *topsv1.GcuResource) error {
	var now topsv1.GcuResource
	err := live.Get(ctx, client.ObjectKeyFromObject(gr), &now)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading GcuResource %s from the API server: %w", gr.Name, err)
	}
	// Deletion also increments the generation, annotations do not.
	if err == nil && now.UID == gr.UID && now.Generation == gr.Generation && maps.Equal(component.UpgradeAnnotations(&now), component.UpgradeAnnotations(gr)) {
		return nil
	}
	return oldCache(gr.Name)
}

// confirmAll is confirm for the list of all grs.
func confirmAll(ctx context.Context, live client.Reader, grs []topsv1.GcuResource) error {
	var now topsv1.GcuResourceList
	if err := live.List(ctx, &now); err != nil {
		return fmt.Errorf("listing GcuResources on the API server: %w", err)
	}
	generations := func(list []topsv1.GcuResource) map[types.UID]int64 {
		all := map[types.UID]int64{}
		for i := range list {
			all[list[i].UID] = list[i].Generation
		}
		return all
	}
	if maps.Equal(generations(now.Items), generations(grs)) {
		return nil
	}
	return oldCache("")
}

// oldCache is the conflict of a pass that would act on an old gr, or on an old list with name "".
func oldCache(name string) error {
	return apierrors.NewConflict(topsv1.GroupVersion.WithResource("gcuresources").GroupResource(), name, errors.New("the cache is behind the API server"))
}

// readNodes returns all nodes sorted by name, shared with the cache.
func readNodes(ctx context.Context, from client.Reader) ([]*corev1.Node, error) {
	var list corev1.NodeList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// deleteObjects deletes objects, with their UIDs and versions as preconditions.
func deleteObjects(ctx context.Context, c client.Client, objects []state.Owned) error {
	var errs []error
	for _, o := range objects {
		if o.Deleting {
			continue
		}
		log.FromContext(ctx).Info("Deleting object", "object", o.Ref.String(), "component", o.Component)
		as := client.Preconditions{UID: &o.UID}
		if o.Version != "" {
			as.ResourceVersion = &o.Version
		}
		err := c.Delete(ctx, o.Ref.Metadata(), as, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !denial.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting %s: %w", o.Ref, err))
		}
	}
	return errors.Join(errs...)
}

// readRollout returns the DaemonRollout of a gr, which has the gr's name in the operator's
// namespace; an empty one if there is none.
func readRollout(ctx context.Context, from client.Reader, namespace, name string) (*topsv1.DaemonRollout, error) {
	rollout := &topsv1.DaemonRollout{}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, rollout, client.UnsafeDisableDeepCopy)
	if denial.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonRollout %s: %w", name, err)
	}
	if !rollout.BelongsTo(topsv1.GcuResourceKind, name) {
		return &topsv1.DaemonRollout{}, nil
	}
	return rollout, nil
}
