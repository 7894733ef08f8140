package gcuresource

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// podIndex names the index of the cache's pods by workload. A list of the cache
// looks at every pod of a namespace and copies those it finds, which on many
// nodes is most of what a pass costs.
const podIndex = "gcuresource-workload"

func podIndexKey(namespace, workload string) string { return namespace + "/" + workload }

// indexedCache is what the cache of a manager holds of pods and nodes, with the
// number of the events that told of them.
type indexedCache struct {
	// pods, with the index podIndex, and nodes are nil when they are to be listed.
	pods, nodes toolscache.Indexer
	events      eventCounts
}

// open lets the cache of a manager be read, but for one that has no indexes of its
// own: that is read by lists.
func (c *indexedCache) open(mgr ctrl.Manager) error {
	pods, err := indexerOf(mgr, &corev1.Pod{}, toolscache.Indexers{podIndex: workloadsOf})
	if err != nil {
		return err
	}
	nodes, err := indexerOf(mgr, &corev1.Node{}, nil)
	if err != nil || pods == nil || nodes == nil {
		return err
	}
	c.pods, c.nodes = pods, nodes
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

// counted lets every event of a pod or a node pass after it was counted. It comes
// before the predicates that leave events out: what these say nothing about is
// another object in the cache all the same.
func (c *indexedCache) counted() predicate.Predicate {
	count := func(objects ...client.Object) bool {
		for _, o := range objects {
			c.count(o)
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return count(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return count(e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return count(e.Object) },
	}
}

func (c *indexedCache) count(o client.Object) {
	if _, ok := o.(*corev1.Node); ok {
		c.events.add(nodesKey)
		return
	}
	c.events.add(podIndexKey(o.GetNamespace(), o.GetLabels()[component.LabelName]))
}

// eventCounts counts the events of what passes read: of the pods of a workload, by
// podIndexKey, and of all nodes, by nodesKey. The cache changes before an event
// tells of it. So what is read after a count is not older than the count, and
// holds while the count stays.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// nodesKey is the key of the nodes; that of a workload has a slash.
const nodesKey = "nodes"

// since returns how many events there were since the key was first asked for.
func (c *eventCounts) since(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	n := c.counts[key]
	c.counts[key] = n
	return n
}

// add counts an event. What nobody asked for is not counted: names of workloads
// come and go.
func (c *eventCounts) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, asked := c.counts[key]; asked {
		c.counts[key] = n + 1
	}
}
