package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// podReader reads the pods of components.
type podReader struct {
	client.Reader
	live  client.Reader
	cache *indexedCache
}

// read reads the pods of the component's workloads, including those left by deleted workloads of
// the same names, but not those of a foreign DaemonSet. The pods of a component that runs on
// nodes are read again only after an event of one of them.
func (r podReader) read(ctx context.Context, obs *state.Observation, c *state.Component, foreign types.UID) error {
	if obs.Cache != nil && c.PerNode != nil {
		ref := c.DaemonSetRef()
		workload := podIndexKey(ref.Namespace, ref.Name)
		key := state.PodsKey{Workload: workload, Count: r.cache.events.since(workload), Foreign: foreign}
		cached, err := obs.Cache.Pods(c.Name, key, func() ([]*corev1.Pod, error) { return r.podsOf(ctx, ref, obs.Resource, foreign) })
		if err != nil {
			return err
		}
		c.CachedPods, c.Pods = cached, cached.List
		return nil
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

// readLeftovers reads on which nodes those DaemonSets still run that the spec no longer requests. If the cache shows
// none for a leaving DaemonSet, the API server is read: a cache without its newest pods must not
// cause their deletion.
func (r podReader) readLeftovers(ctx context.Context, obs *state.Observation) error {
	for _, i := range obs.Leftovers() {
		o := &obs.Owned[i]
		if o.DaemonSet == nil {
			continue
		}
		pods, err := r.podsOf(ctx, o.Ref, obs.Resource, "")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !daemonset.IsPlaceholder(pod) {
				o.Nodes = append(o.Nodes, daemonset.NodeName(pod))
			}
		}
		if len(o.Nodes) == 0 && daemonset.IsLeaving(o.DaemonSet) {
			if o.Nodes, err = r.boundNow(ctx, o); err != nil {
				return err
			}
		}
		slices.Sort(o.Nodes)
	}
	return nil
}

// boundNow reads live on which nodes a DaemonSet has pods other than placeholders.
func (r podReader) boundNow(ctx context.Context, o *state.Owned) (nodes []string, err error) {
	var list corev1.PodList
	bound := client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "")}
	if err := r.live.List(ctx, &list, append(inWorkload(o.Ref), bound)...); err != nil {
		return nil, fmt.Errorf("listing pods of %s from the API server: %w", o.Ref, err)
	}
	for i := range list.Items {
		if owner := daemonset.Owner(&list.Items[i]); owner != nil && owner.UID == o.UID {
			nodes = append(nodes, list.Items[i].Spec.NodeName)
		}
	}
	return nodes, nil
}

// podsOf reads the pods that belong to a workload. For Deployments and Jobs it sorts them, so
// that messages about the first one are stable.
func (r podReader) podsOf(ctx context.Context, ref component.Ref, gr *topsv1.GcuResource, foreign types.UID) ([]*corev1.Pod, error) {
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

// belongs reports whether a pod with the labels of a workload belongs to it.
func belongs(pod *corev1.Pod, ref component.Ref, gr *topsv1.GcuResource, foreign types.UID) bool {
	if ref.GroupVersionKind != component.DaemonSetKind {
		return pod.Labels[topsv1.LabelGcuResource] == gr.Name
	}
	owner := daemonset.Owner(pod)
	return owner != nil && owner.Name == ref.Name && (foreign == "" || owner.UID != foreign)
}

// podsNamed returns the pods with the label of a workload, shared with the cache.
func (r podReader) podsNamed(ctx context.Context, ref component.Ref) ([]any, error) {
	if r.cache.pods != nil {
		return r.cache.pods.ByIndex(podIndex, podIndexKey(ref.Namespace, ref.Name))
	}
	var list corev1.PodList
	err := r.List(ctx, &list, inWorkload(ref)...)
	objects := make([]any, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, err
}

// inWorkload selects the objects with the pod labels of a workload: its pods and its revisions.
func inWorkload(ref component.Ref) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(ref.Namespace),
		client.MatchingLabels{component.LabelName: ref.Name},
		client.UnsafeDisableDeepCopy,
	}
}
