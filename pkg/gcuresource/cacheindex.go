package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// podIndex names the index of the cache's pods by workload. A list of the cache
// looks at every pod of a namespace and copies those it finds, which on many
// nodes is most of what a pass costs.
const podIndex = "gcuresource-workload"

func podIndexKey(namespace, workload string) string { return namespace + "/" + workload }

// readCache lets the reconciler read pods by workload, and nodes, as the cache of
// a manager holds them. A cache that has no indexes of its own is read by lists.
func (r *Reconciler) readCache(mgr ctrl.Manager) error {
	pods, err := indexerOf(mgr, &corev1.Pod{}, toolscache.Indexers{podIndex: workloadsOf})
	if err != nil {
		return err
	}
	nodes, err := indexerOf(mgr, &corev1.Node{}, nil)
	if err != nil || pods == nil || nodes == nil {
		return err
	}
	r.pods, r.nodes = pods, nodes
	return nil
}

// indexerOf returns what the cache holds of one kind, nil when that cannot be had.
func indexerOf(mgr ctrl.Manager, kind client.Object, indexers toolscache.Indexers) (toolscache.Indexer, error) {
	informer, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("getting the informer of %T: %w", kind, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, nil
	}
	if err := shared.AddIndexers(indexers); err != nil {
		return nil, fmt.Errorf("indexing %T: %w", kind, err)
	}
	return shared.GetIndexer(), nil
}

// workloadsOf is the index function of podIndex.
func workloadsOf(o any) ([]string, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Labels[component.LabelName] == "" {
		return nil, nil
	}
	return []string{podIndexKey(pod.Namespace, pod.Labels[component.LabelName])}, nil
}

// readPods reads the pods of the component's workloads, and those that gone
// workloads of their names left behind; not those of a foreign DaemonSet.
func (r *Reconciler) readPods(ctx context.Context, obs *Observation, c *Component, foreign types.UID) error {
	if obs.kept != nil && c.PerNode != nil {
		return r.readKeptPods(ctx, obs, c, foreign)
	}
	for _, ref := range c.Workloads() {
		pods, err := r.podsOf(ctx, ref, obs.Resource, foreign)
		if err != nil {
			return err
		}
		c.Pods = append(c.Pods, pods...)
	}
	return nil
}

// readKeptPods is readPods for a component that runs on nodes: its pods are read
// again when an event told of one of them.
func (r *Reconciler) readKeptPods(ctx context.Context, obs *Observation, c *Component, foreign types.UID) error {
	ref := c.perNodeRef()
	workload := podIndexKey(ref.Namespace, ref.Name)
	key := podsKey{workload, r.changes.count(workload), foreign}
	if k := obs.kept.pods[c.Name]; k == nil || k.podsOf != key {
		pods, err := r.podsOf(ctx, ref, obs.Resource, foreign)
		if err != nil {
			return err
		}
		obs.kept.pods[c.Name] = &keptPods{key, pods}
	}
	c.kept = obs.kept.pods[c.Name]
	c.Pods = c.kept.selected
	return nil
}

// podsOf reads the pods that belong to a workload, sorted when it has replicas:
// what is told of the first of them is to stay the same.
func (r *Reconciler) podsOf(ctx context.Context, ref component.Ref, gr *topsv1.GcuResource, foreign types.UID) ([]*corev1.Pod, error) {
	objects, err := r.podsNamed(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("listing pods of %s: %w", ref, err)
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok && belongs(pod, ref, gr, foreign) {
			pods = append(pods, pod)
		}
	}
	if ref.GroupVersionKind != component.DaemonSetKind {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	}
	return pods, nil
}

// belongs reports whether a pod with the labels of a workload comes from it.
func belongs(pod *corev1.Pod, ref component.Ref, gr *topsv1.GcuResource, foreign types.UID) bool {
	if ref.GroupVersionKind != component.DaemonSetKind {
		return pod.Labels[topsv1.LabelGcuResource] == gr.Name
	}
	owner := daemonset.Owner(pod)
	return owner != nil && owner.Name == ref.Name && (foreign == "" || owner.UID != foreign)
}

// podsNamed returns the pods that carry the name of a workload, shared with the cache.
func (r *Reconciler) podsNamed(ctx context.Context, ref component.Ref) ([]any, error) {
	if r.pods != nil {
		return r.pods.ByIndex(podIndex, podIndexKey(ref.Namespace, ref.Name))
	}
	var list corev1.PodList
	err := r.List(ctx, &list, inWorkload(ref)...)
	objects := make([]any, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, err
}

// noted lets every event of a pod or a node pass after it was counted. It comes
// before the predicates that leave events out: what these say nothing about is
// another object in the cache all the same.
func (r *Reconciler) noted() predicate.Predicate {
	note := func(objects ...client.Object) bool {
		for _, o := range objects {
			r.note(o)
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return note(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return note(e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return note(e.Object) },
	}
}

func (r *Reconciler) note(o client.Object) {
	if _, ok := o.(*corev1.Node); ok {
		r.changes.note(allNodes)
		return
	}
	r.changes.note(podIndexKey(o.GetNamespace(), o.GetLabels()[component.LabelName]))
}
