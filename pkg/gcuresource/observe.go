package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// metadataKinds are the kinds of which a gr owns objects and whose state does
// not count. Only their metadata is cached.
var metadataKinds = []schema.GroupVersionKind{
	admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
}

// observe reads everything a decision about a gr needs. All reads but those of
// a gr itself share the objects of the cache: nothing may change them.
func (r *Reconciler) observe(ctx context.Context, gr *topsv1.GcuResource) (*Observation, error) {
	rendered, err := r.memory.render(gr)
	if err != nil {
		return nil, err
	}
	obs := &Observation{Resource: gr, Applied: r.memory.of(gr.Name)}
	if r.pods != nil {
		obs.kept = r.memory.keep(gr.Name)
	}
	for i := range rendered {
		c := Component{Rendered: rendered[i]}
		if err := r.readComponent(ctx, obs, &c); err != nil {
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
	if err := r.readFleet(ctx, obs); err != nil {
		return nil, err
	}
	if obs.Others, err = r.readOthers(ctx, gr); err != nil {
		return nil, err
	}
	if obs.Rivals, err = r.readRivals(ctx, gr); err != nil {
		return nil, err
	}
	obs.Halt, err = r.readHalt(ctx, obs)
	return obs, err
}

// readHalt returns why the rollout of a gr is halted until a person acts, nil when it is not.
func (r *Reconciler) readHalt(ctx context.Context, obs *Observation) (*Failure, error) {
	// The DaemonRollout of a gr has its name and is in the operator's namespace.
	var rollout topsv1.DaemonRollout
	name := obs.Resource.Name
	err := r.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &rollout, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonRollout %s: %w", name, err)
	}
	halt := haltOf(&rollout)
	if halt == nil || !isAbout(&rollout, obs) {
		return nil, nil
	}
	return halt, nil
}

// readOthers returns the other grs, the oldest first.
func (r *Reconciler) readOthers(ctx context.Context, gr *topsv1.GcuResource) ([]topsv1.GcuResource, error) {
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GcuResources: %w", err)
	}
	others := slices.DeleteFunc(grs.Items, func(other topsv1.GcuResource) bool { return other.UID == gr.UID })
	slices.SortFunc(others, func(a, b topsv1.GcuResource) int {
		if older(&a, &b) {
			return -1
		}
		return 1
	})
	return others, nil
}

// readRivals returns the workloads of other grs that exclude a component of
// this one.
func (r *Reconciler) readRivals(ctx context.Context, gr *topsv1.GcuResource) ([]Rival, error) {
	var rivals []Rival
	for _, name := range component.Requested(&gr.Spec) {
		for _, excluded := range component.Find(name).Excludes {
			for _, list := range []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}} {
				if err := r.List(ctx, list, client.MatchingLabels{topsv1.LabelComponent: excluded}, client.UnsafeDisableDeepCopy); err != nil {
					return nil, fmt.Errorf("listing workloads of component %s: %w", excluded, err)
				}
				err := each(list, func(o client.Object) {
					if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == topsv1.GcuResourceKind && owner.UID != gr.UID {
						rivals = append(rivals, Rival{Ref: refOf(o), Component: excluded, GcuResource: owner.Name})
					}
				})
				if err != nil {
					return nil, err
				}
			}
		}
	}
	slices.SortFunc(rivals, func(a, b Rival) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return rivals, nil
}

// readComponent reads the objects and the pods of a component.
func (r *Reconciler) readComponent(ctx context.Context, obs *Observation, c *Component) error {
	gr := obs.Resource
	c.Live = map[component.Ref]*metav1.PartialObjectMetadata{}
	var foreign types.UID
	for _, d := range c.Objects {
		live, err := r.readObject(ctx, d.Ref)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", d.Ref, err)
		}
		if ds, ok := live.(*appsv1.DaemonSet); ok && !metav1.IsControlledBy(ds, gr) {
			foreign = ds.UID
		}
		c.setLive(gr, d.Ref, live)
	}
	return r.readPods(ctx, obs, c, foreign)
}

// readObject reads one object: in full when its state counts, else its
// metadata. Secrets are not cached, so that nobody has to let the operator list
// them.
func (r *Reconciler) readObject(ctx context.Context, ref component.Ref) (client.Object, error) {
	var from client.Reader = r.Client
	var o client.Object = metadataOf(ref)
	switch {
	case ref.Kind == "Secret":
		from = r.APIReader
	case ref.GroupVersionKind == component.DaemonSetKind:
		o = &appsv1.DaemonSet{}
	case ref.GroupVersionKind == component.DeploymentKind:
		o = &appsv1.Deployment{}
	case ref.GroupVersionKind == component.JobKind:
		o = &batchv1.Job{}
	}
	return o, from.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o, client.UnsafeDisableDeepCopy)
}

// setLive notes an object as it is in the cluster. A workload counts when it is
// the gr's.
func (c *Component) setLive(gr *topsv1.GcuResource, ref component.Ref, live client.Object) {
	m := metadataOf(ref)
	m.UID, m.Generation, m.ResourceVersion = live.GetUID(), live.GetGeneration(), live.GetResourceVersion()
	m.Labels, m.Annotations, m.OwnerReferences = live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences()
	m.DeletionTimestamp = live.GetDeletionTimestamp()
	c.Live[ref] = m
	if !metav1.IsControlledBy(live, gr) {
		return
	}
	switch o := live.(type) {
	case *appsv1.DaemonSet:
		c.DaemonSet = o
	case *appsv1.Deployment:
		if c.Deployments == nil {
			c.Deployments = map[string]*appsv1.Deployment{}
		}
		c.Deployments[o.Name] = o
	case *batchv1.Job:
		if c.Jobs == nil {
			c.Jobs = map[string]*batchv1.Job{}
		}
		c.Jobs[o.Name] = o
	}
}

// readRevisions reads the ControllerRevisions of each DaemonSet that exists.
func (r *Reconciler) readRevisions(ctx context.Context, from client.Reader, obs *Observation) error {
	for i := range obs.Components {
		c := &obs.Components[i]
		if c.DaemonSet == nil {
			continue
		}
		var list appsv1.ControllerRevisionList
		if err := from.List(ctx, &list, inWorkload(c.perNodeRef())...); err != nil {
			return fmt.Errorf("listing revisions of %s: %w", c.perNodeRef(), err)
		}
		c.Revisions = nil
		for j := range list.Items {
			c.Revisions = append(c.Revisions, &list.Items[j])
		}
	}
	return nil
}

// inWorkload selects what carries the pod labels of a workload: its pods and
// its revisions.
func inWorkload(ref component.Ref) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(ref.Namespace),
		client.MatchingLabels{component.LabelName: ref.Name},
		client.UnsafeDisableDeepCopy,
	}
}

// readOwned lists the objects that carry the label of the gr and that it controls.
func (r *Reconciler) readOwned(ctx context.Context, gr *topsv1.GcuResource) ([]Owned, error) {
	lists := []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &batchv1.JobList{}}
	for _, kind := range metadataKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		lists = append(lists, list)
	}
	var owned []Owned
	for _, list := range lists {
		if err := r.List(ctx, list, client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the objects of GcuResource %s: %w", gr.Name, err)
		}
		err := each(list, func(o client.Object) {
			if metav1.IsControlledBy(o, gr) {
				owned = append(owned, Owned{Ref: refOf(o), UID: o.GetUID(),
					Component: o.GetLabels()[topsv1.LabelComponent], Deleting: o.GetDeletionTimestamp() != nil})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(owned, func(a, b Owned) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return owned, nil
}

// each calls a function with every object of a list.
func each(list client.ObjectList, call func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list holds a %T, which is no object", item)
		}
		call(o)
		return nil
	})
}

// refOf identifies an object that was read; objects of lists carry no kind.
func refOf(o client.Object) component.Ref {
	ref := component.Ref{GroupVersionKind: o.GetObjectKind().GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *appsv1.DaemonSet:
		ref.GroupVersionKind = component.DaemonSetKind
	case *appsv1.Deployment:
		ref.GroupVersionKind = component.DeploymentKind
	case *batchv1.Job:
		ref.GroupVersionKind = component.JobKind
	}
	return ref
}

// readFleet reads all nodes, sorted by name, shared with the cache.
func (r *Reconciler) readFleet(ctx context.Context, obs *Observation) error {
	if obs.kept != nil {
		obs.fleet = obs.kept.keepNodes(r.changes.count(allNodes), r.nodes.List)
		obs.Nodes = obs.fleet.list
		return nil
	}
	var err error
	obs.Nodes, err = readNodes(ctx, r.Client)
	return err
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
func metadataOf(ref component.Ref) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	m.SetGroupVersionKind(ref.GroupVersionKind)
	return m
}
