package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// metadataKinds are the kinds, beside DaemonSet, of which a gr owns objects.
// Only their metadata is cached.
var metadataKinds = []schema.GroupVersionKind{
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
}

// observe reads everything a decision about a gr needs. All reads but those of
// a gr itself share the objects of the cache: nothing may change them.
func (r *Reconciler) observe(ctx context.Context, gr *topsv1.GcuResource) (*Observation, error) {
	rendered, err := Render(gr)
	if err != nil {
		return nil, err
	}
	obs := &Observation{Resource: gr, Applied: r.memory.of(gr.Name)}
	for i := range rendered {
		c := Component{Rendered: rendered[i]}
		if err := r.readComponent(ctx, gr, &c); err != nil {
			return nil, err
		}
		obs.Components = append(obs.Components, c)
	}
	if err := r.readRevisions(ctx, r.Client, obs); err != nil {
		return nil, err
	}
	if obs.Owned, err = r.readOwned(ctx, gr); err != nil {
		return nil, err
	}
	if obs.Nodes, err = readNodes(ctx, r.Client); err != nil {
		return nil, err
	}
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs); err != nil {
		return nil, fmt.Errorf("listing GcuResources: %w", err)
	}
	obs.Alone = !slices.ContainsFunc(grs.Items, func(other topsv1.GcuResource) bool { return other.UID != gr.UID })
	return obs, nil
}

// readComponent reads the objects and the pods of a component.
func (r *Reconciler) readComponent(ctx context.Context, gr *topsv1.GcuResource, c *Component) error {
	c.Live = map[Ref]*metav1.PartialObjectMetadata{}
	var foreign *appsv1.DaemonSet
	for _, d := range c.Objects {
		if d.Ref.GroupVersionKind != daemonSetKind {
			m := metadataOf(d.Ref)
			if err := r.Get(ctx, client.ObjectKeyFromObject(m), m); err == nil {
				c.Live[d.Ref] = m
			} else if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading %s: %w", d.Ref, err)
			}
			continue
		}
		ds := &appsv1.DaemonSet{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: d.Ref.Namespace, Name: d.Ref.Name}, ds); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("reading %s: %w", d.Ref, err)
		}
		c.setDaemonSet(ds)
		if !metav1.IsControlledBy(ds, gr) {
			c.DaemonSet, foreign = nil, ds
		}
	}
	return r.readPods(ctx, c, foreign)
}

// setDaemonSet takes over the workload as it is in the cluster.
func (c *Component) setDaemonSet(ds *appsv1.DaemonSet) {
	c.DaemonSet = ds
	c.Live[c.workloadRef()] = &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: ds.ObjectMeta,
	}
}

// readPods reads the pods of the component's DaemonSet, and those a DaemonSet
// of its name left behind; not those of a foreign one.
func (r *Reconciler) readPods(ctx context.Context, c *Component, foreign *appsv1.DaemonSet) error {
	if !c.Served {
		return nil
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, inComponent(c)...); err != nil {
		return fmt.Errorf("listing pods of %s: %w", c.workloadRef(), err)
	}
	for i := range pods.Items {
		owner := daemonset.Owner(&pods.Items[i])
		if owner == nil || owner.Name != c.Workload.Name || (foreign != nil && owner.UID == foreign.UID) {
			continue
		}
		c.Pods = append(c.Pods, &pods.Items[i])
	}
	return nil
}

// readRevisions reads the ControllerRevisions of each component that exists.
func (r *Reconciler) readRevisions(ctx context.Context, from client.Reader, obs *Observation) error {
	for i := range obs.Components {
		c := &obs.Components[i]
		if c.DaemonSet == nil {
			continue
		}
		var list appsv1.ControllerRevisionList
		if err := from.List(ctx, &list, inComponent(c)...); err != nil {
			return fmt.Errorf("listing revisions of %s: %w", c.workloadRef(), err)
		}
		c.Revisions = nil
		for j := range list.Items {
			c.Revisions = append(c.Revisions, &list.Items[j])
		}
	}
	return nil
}

// inComponent selects what carries the pod labels of a component: its pods and
// its revisions.
func inComponent(c *Component) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(c.Workload.Namespace),
		client.MatchingLabels{labelName: c.Workload.Name},
		client.UnsafeDisableDeepCopy,
	}
}

// readOwned lists the objects that carry the label of the gr and that it controls.
func (r *Reconciler) readOwned(ctx context.Context, gr *topsv1.GcuResource) ([]Owned, error) {
	var owned []Owned
	add := func(kind schema.GroupVersionKind, m metav1.Object) {
		if metav1.IsControlledBy(m, gr) {
			owned = append(owned, Owned{
				Ref:       Ref{GroupVersionKind: kind, Namespace: m.GetNamespace(), Name: m.GetName()},
				UID:       m.GetUID(),
				Component: m.GetLabels()[topsv1.LabelComponent],
				Deleting:  m.GetDeletionTimestamp() != nil,
			})
		}
	}
	ofGR := client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}
	var sets appsv1.DaemonSetList
	if err := r.List(ctx, &sets, ofGR, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	for i := range sets.Items {
		add(daemonSetKind, &sets.Items[i])
	}
	for _, kind := range metadataKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.List(ctx, list, ofGR); err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			add(kind, &list.Items[i])
		}
	}
	slices.SortFunc(owned, func(a, b Owned) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return owned, nil
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

// metadataOf returns an empty metadata object that identifies ref.
func metadataOf(ref Ref) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	m.SetGroupVersionKind(ref.GroupVersionKind)
	return m
}
