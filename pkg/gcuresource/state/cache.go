package state

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
)

// Cache is what a pass leaves to the next one over the same gr, so that only changed objects are
// examined again: in a large fleet usually one pod or none. An entry is valid until an event of
// one of the objects it was made from.
type Cache struct {
	nodes *CachedNodes
	hosts cachedHosts
	index cachedIndex
	// pods and health by component.
	pods   map[string]*CachedPods
	health map[string]cachedHealth
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{pods: map[string]*CachedPods{}, health: map[string]cachedHealth{}}
}

// CachedNodes are all nodes at a count of their events.
type CachedNodes struct {
	count int
	// List is sorted by name.
	List []*corev1.Node
	// gcu are the names of the GCU nodes among them, notAllowed of those that admission keeps from being labeled so.
	gcu, notAllowed []string
}

// Nodes returns the nodes among objects, from the cache if the count is the same.
func (c *Cache) Nodes(count int, objects func() []any) *CachedNodes {
	if c.nodes != nil && c.nodes.count == count {
		return c.nodes
	}
	c.nodes = &CachedNodes{count: count}
	for _, o := range objects() {
		if node, ok := o.(*corev1.Node); ok {
			c.nodes.List = append(c.nodes.List, node)
		}
	}
	slices.SortFunc(c.nodes.List, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	c.nodes.gcu, c.nodes.notAllowed = nodelabel.GCUNodes(c.nodes.List), nodelabel.NotAllowed(c.nodes.List)
	return c.nodes
}

// cachedHosts are the hosts of all nodes at a count of their events.
type cachedHosts struct {
	count  int
	byNode map[string]Host
}

// Hosts returns the hosts of all nodes, from the cache if the count is the same.
func (c *Cache) Hosts(count int, read func() (map[string]Host, error)) (map[string]Host, error) {
	if c.hosts.byNode != nil && c.hosts.count == count {
		return c.hosts.byNode, nil
	}
	byNode, err := read()
	if err != nil {
		return nil, err
	}
	c.hosts = cachedHosts{count, byNode}
	return byNode, nil
}

// cachedIndex is the node index for a gr at one generation, with hosts at a count of their events.
type cachedIndex struct {
	of         *CachedNodes
	hosts      int
	uid        types.UID
	generation int64
	nodes      *NodeIndex
}

// indexFor returns the index of the nodes with the labels that a gr wants.
func (c *Cache) indexFor(gr *topsv1.GcuResource, nodes *CachedNodes) *NodeIndex {
	if i := &c.index; i.of != nodes || i.hosts != c.hosts.count || i.uid != gr.UID || i.generation != gr.Generation {
		*i = cachedIndex{nodes, c.hosts.count, gr.UID, gr.Generation, NewNodeIndex(nodelabel.Anticipated(nodes.List, gr), c.hosts.byNode)}
	}
	return c.index.nodes
}

// CachedPods are the pods of a component that runs on nodes.
type CachedPods struct {
	key  PodsKey
	List []*corev1.Pod
}

// PodsKey identifies a state of a component's pods: the key of its workload, the count of its pod
// events, and the UID of a foreign DaemonSet of that name.
type PodsKey struct {
	Workload string
	Count    int
	Foreign  types.UID
}

// Pods returns the pods of a component, from the cache if the key is the same.
func (c *Cache) Pods(name string, key PodsKey, read func() ([]*corev1.Pod, error)) (*CachedPods, error) {
	if was := c.pods[name]; was != nil && was.key == key {
		return was, nil
	}
	pods, err := read()
	if err != nil {
		return nil, err
	}
	c.pods[name] = &CachedPods{key, pods}
	return c.pods[name], nil
}

// cachedHealth is the health of a component, and what it was assessed from.
type cachedHealth struct {
	of     assessed
	health Health
}

// assessed identifies the objects on which the health of a component depends.
type assessed struct {
	pods                 *CachedPods
	nodes                *NodeIndex
	daemonSet, revisions string
}
