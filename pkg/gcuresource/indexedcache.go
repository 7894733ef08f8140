package gcuresource

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// podIndex names the index of the cache's pods by workload. Without it, listing examines every
// pod of a namespace and copies the matches, which is most of the cost of a pass on many nodes.
const podIndex = "gcuresource-workload"

func podIndexKey(namespace, workload string) string { return namespace + "/" + workload }

// indexedCache gives access to the pods and nodes in the cache of a manager, with counts of their
// events.
type indexedCache struct {
	// pods, with the index podIndex, and nodes; nil if they have to be listed.
	pods, nodes toolscache.Indexer
	events      eventCounts
}

// open connects to the cache of a manager. A cache without its own indexes is read by lists
// instead.
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

// indexerOf returns the indexer of one kind, nil if there is none.
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

// counted passes every event of a pod or a node after counting it. It precedes the predicates that
// drop events, because a dropped event changes the object in the cache as well.
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

// eventCounts counts the events of the objects that passes read: of the pods of a workload, by podIndexKey,
// of all nodes, by nodesKey, and of all NodeUpgrades, by hostsKey. The cache changes before its
// event is delivered. So objects read after the count are at least as new as the count,
// and stay valid while the count stays the same.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
	// due is when the events of NodeUpgrades beyond the budget of an agent are counted; zero for none.
	due time.Time
}

// Keys of the nodes and of the NodeUpgrades; the key of a workload has a slash.
const nodesKey, hostsKey = "nodes", "hosts"

// since returns the number of events since the key was first requested.
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

// add counts an event. Keys that were never requested are not counted, since names of workloads
// come and go.
func (c *eventCounts) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, asked := c.counts[key]; asked {
		c.counts[key] = n + 1
	}
}

// addHostsAt counts the events of NodeUpgrades at the time due, not before: each count makes a pass read all of
// them again.
func (c *eventCounts) addHostsAt(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.IsZero() || due.Before(c.due) {
		c.due = due
	}
}

// hostsSince is since for hostsKey.
func (c *eventCounts) hostsSince(now time.Time) int {
	c.mu.Lock()
	isDue := !c.due.IsZero() && !now.Before(c.due)
	if isDue {
		c.due = time.Time{}
	}
	c.mu.Unlock()
	if isDue {
		c.add(hostsKey)
	}
	return c.since(hostsKey)
}
