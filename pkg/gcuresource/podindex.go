package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// podIndex names the index of the cache's pods by workload. A list of the cache
// looks at every pod of a namespace and copies those it finds, which on many
// nodes is most of what a pass costs.
const podIndex = "gcuresource-workload"

func podIndexKey(namespace, workload string) string { return namespace + "/" + workload }

// indexPods adds the index to the cache of a manager. nil without an error means
// that the cache has no indexes of its own, and that pods are to be listed.
func indexPods(mgr ctrl.Manager) (toolscache.Indexer, error) {
	informer, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("getting the informer of pods: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, nil
	}
	err = shared.AddIndexers(toolscache.Indexers{podIndex: func(o any) ([]string, error) {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Labels[component.LabelName] == "" {
			return nil, nil
		}
		return []string{podIndexKey(pod.Namespace, pod.Labels[component.LabelName])}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing pods by workload: %w", err)
	}
	return shared.GetIndexer(), nil
}

// podsNamed returns the pods that carry the name of a workload, shared with the
// cache. Those of a Deployment or Job are sorted, so that what is told of the
// first of them stays the same.
func (r *Reconciler) podsNamed(ctx context.Context, ref component.Ref) ([]*corev1.Pod, error) {
	pods, err := r.unsortedPods(ctx, ref)
	if ref.GroupVersionKind != component.DaemonSetKind {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	}
	return pods, err
}

func (r *Reconciler) unsortedPods(ctx context.Context, ref component.Ref) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	if r.pods == nil {
		var list corev1.PodList
		err := r.List(ctx, &list, inWorkload(ref)...)
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
		return pods, err
	}
	found, err := r.pods.ByIndex(podIndex, podIndexKey(ref.Namespace, ref.Name))
	pods = make([]*corev1.Pod, 0, len(found))
	for _, o := range found {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, err
}
