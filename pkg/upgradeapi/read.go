package upgradeapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

var (
	grKind        = topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)
	grResource    = schema.GroupResource{Group: topsv1.GroupVersion.Group, Resource: "gcuresources"}
	rolloutKind   = topsv1.GroupVersion.WithKind("DaemonRollout")
	daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	daemonSets    = schema.GroupResource{Group: appsv1.GroupName, Resource: "daemonsets"}
	revisionKind  = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// list returns all grs, as the API server lists them.
func (a *API) list(ctx context.Context, _ call) (any, error) {
	return a.listOf(ctx, grKind)
}

// get returns a gr.
func (a *API) get(ctx context.Context, c call) (any, error) {
	if a.cached(c.name) {
		gr := &topsv1.GcuResource{}
		if err := a.Cache.Get(ctx, client.ObjectKey{Name: c.name}, gr); err == nil {
			return a.shown(gr, grKind)
		}
	}
	return a.object(ctx, grKind, client.ObjectKey{Name: c.name})
}

// resource returns the DaemonSet of one component of a gr (contract statements
// 63, 64 and 68).
func (a *API) resource(ctx context.Context, c call) (any, error) {
	component, ok := components[c.kind]
	if !ok {
		return nil, badRequest("kind %.100q is none of %s", c.kind, strings.Join(kinds(), ", "))
	}
	labels := client.MatchingLabels{topsv1.LabelGcuResource: c.name, topsv1.LabelComponent: component}
	if ds := a.cachedDaemonSet(ctx, c.name, labels); ds != nil {
		return a.shown(ds, daemonSetKind)
	}
	owned, err := a.ownedBy(ctx, c.name, daemonSetKind, labels)
	if err != nil {
		return nil, err
	}
	if len(owned.Items) == 0 {
		return nil, apierrors.NewNotFound(daemonSets, c.kind)
	}
	return &owned.Items[0], nil
}

// cached reports whether the cache may be shown of a gr.
func (a *API) cached(name string) bool {
	_, lately := a.written.Get(name)
	return a.Cache != nil && !lately
}

// cachedDaemonSet returns the DaemonSet of a gr that has labels, nil when the cache
// has none.
func (a *API) cachedDaemonSet(ctx context.Context, name string, labels client.MatchingLabels) *appsv1.DaemonSet {
	if !a.cached(name) {
		return nil
	}
	gr, list := &topsv1.GcuResource{}, &appsv1.DaemonSetList{}
	if a.Cache.Get(ctx, client.ObjectKey{Name: name}, gr) != nil || a.Cache.List(ctx, list, labels) != nil {
		return nil
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], gr) {
			return &list.Items[i]
		}
	}
	return nil
}

// maxPrints bounds the objects that are kept encoded.
const maxPrints = 256

// version is what an object of the cache is at: the same version is encoded the same.
type version struct {
	kind    schema.GroupVersionKind
	uid     types.UID
	version string
}

// shown is an object of the cache as the API server would have sent it. It is encoded
// once for each version of it: many read it, and it changes now and then.
func (a *API) shown(object client.Object, kind schema.GroupVersionKind) (printed, error) {
	at := version{kind, object.GetUID(), object.GetResourceVersion()}
	if print, found := a.prints.Get(at); found {
		return print.(printed), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	u.SetManagedFields(nil)
	print, err := inPrint(u)
	if err != nil {
		return nil, err
	}
	a.prints.Add(at, print)
	return print, nil
}

// rollout returns the DaemonRollout of a gr as it is now.
func (a *API) rollout(ctx context.Context, c call) (any, error) {
	if _, err := a.object(ctx, grKind, client.ObjectKey{Name: c.name}); err != nil {
		return nil, err
	}
	return a.object(ctx, rolloutKind, client.ObjectKey{Namespace: a.Namespace, Name: c.name})
}

// revisions returns the specs of a gr that are kept, the newest first.
func (a *API) revisions(ctx context.Context, c call) (any, error) {
	owned, err := a.ownedBy(ctx, c.name, revisionKind, client.InNamespace(a.Namespace), client.MatchingLabels{topsv1.LabelGcuResource: c.name})
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

// ownedBy lists the objects of a kind that a gr controls; a gr that is absent is
// an error. Labels alone would show those of another gr of that name.
func (a *API) ownedBy(ctx context.Context, name string, kind schema.GroupVersionKind, options ...client.ListOption) (*unstructured.UnstructuredList, error) {
	gr, err := a.object(ctx, grKind, client.ObjectKey{Name: name})
	if err != nil {
		return nil, err
	}
	list, err := a.listOf(ctx, kind, options...)
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !metav1.IsControlledBy(&o, gr) })
	return list, nil
}

// object reads an object as the API server has it, without managedFields
// (contract statement 68). Its error is the API server's.
func (a *API) object(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := a.Client.Get(ctx, key, object); err != nil {
		return nil, err
	}
	object.SetManagedFields(nil)
	return object, nil
}

// listOf is object for a list, sorted by namespace and name as the API server does.
func (a *API) listOf(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := a.Client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		list.Items[i].SetManagedFields(nil)
	}
	return list, nil
}
