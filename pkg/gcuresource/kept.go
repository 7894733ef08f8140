package gcuresource

import (
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kept is what a pass leaves to the next one over the same gr, so that it looks
// again only at what changed: on a large fleet that is a pod or none. Nothing in
// it is trusted: it holds until an event tells of one of the objects it was made
// of.
type kept struct {
	nodes  *keptNodes
	roster *keptRoster
	// pods and assessed are by component.
	pods     map[string]*keptPods
	assessed map[string]keptHealth
}

func newKept() *kept {
	return &kept{pods: map[string]*keptPods{}, assessed: map[string]keptHealth{}}
}

// changes counts the events of what passes keep: of the pods of a workload, by
// podIndexKey, and of all nodes, by allNodes. The cache changes before an event
// tells of it. So what is read after a count is not older than the count, and
// holds while the count stays.
type changes struct {
	mu     sync.Mutex
	counts map[string]int
}

// allNodes is the key of the nodes; that of a workload has a slash.
const allNodes = "nodes"

// count returns how many events there were since the key was first asked for.
func (c *changes) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	n := c.counts[key]
	c.counts[key] = n
	return n
}

// note counts an event. What nobody asked for is not counted: names of workloads
// come and go.
func (c *changes) note(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, asked := c.counts[key]; asked {
		c.counts[key] = n + 1
	}
}

// keptNodes are all nodes, sorted by name, at a count of changes.
type keptNodes struct {
	count int
	list  []*corev1.Node
	// gcu names the GCU nodes among them.
	gcu []string
}

// keepNodes returns the nodes among objects: those kept when the count is the same.
func (k *kept) keepNodes(count int, objects func() []any) *keptNodes {
	if k.nodes != nil && k.nodes.count == count {
		return k.nodes
	}
	k.nodes = &keptNodes{count: count}
	for _, o := range objects() {
		if node, ok := o.(*corev1.Node); ok {
			k.nodes.list = append(k.nodes.list, node)
		}
	}
	slices.SortFunc(k.nodes.list, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	k.nodes.gcu = gcuNodes(k.nodes.list)
	return k.nodes
}

// gcuNodes names the GCU nodes, sorted, offline ones included.
func (o *Observation) gcuNodes() []string {
	if o.fleet == nil {
		return gcuNodes(o.Nodes)
	}
	return slices.Clone(o.fleet.gcu)
}

// keptRoster is the roster of a gr at one generation.
type keptRoster struct {
	of         *keptNodes
	uid        types.UID
	generation int64
	roster     *roster
}

// rosterOf returns the nodes as Decide wants them.
func (o *Observation) rosterOf() *roster {
	gr := o.Resource
	if o.fleet == nil {
		return newRoster(labelled(o.Nodes, gr))
	}
	k := o.kept.roster
	if k == nil || k.of != o.fleet || k.uid != gr.UID || k.generation != gr.Generation {
		k = &keptRoster{o.fleet, gr.UID, gr.Generation, newRoster(labelled(o.Nodes, gr))}
		o.kept.roster = k
	}
	return k.roster
}

// keptPods are the pods of a component that runs on nodes, at a count of changes.
type keptPods struct {
	podsOf   podsKey
	selected []*corev1.Pod
}

// podsKey is what the pods of a component depend on: those that carry the name of
// its workload, and the UID of somebody else's DaemonSet of that name.
type podsKey struct {
	workload string
	count    int
	foreign  types.UID
}

// keptHealth is how a component did.
type keptHealth struct {
	pods      *keptPods
	roster    *roster
	daemonSet string
	revisions string
	health    health
}

// assessNodes is assessNodes for an observation: what it says of the same
// objects is the same, unless it is a matter of time.
func (o *Observation) assessNodes(c *Component, nodes *roster, now time.Time) health {
	if o.kept == nil || c.kept == nil {
		return assessNodes(c, nodes, now)
	}
	is := keptHealth{pods: c.kept, roster: nodes, daemonSet: versionOf(c.DaemonSet), revisions: versionsOf(c.Revisions)}
	was, known := o.kept.assessed[c.Name]
	if known && was.pods == is.pods && was.roster == is.roster && was.daemonSet == is.daemonSet && was.revisions == is.revisions {
		return was.health
	}
	is.health = assessNodes(c, nodes, now)
	if is.health.wait == 0 {
		o.kept.assessed[c.Name] = is
	}
	return is.health
}

func versionOf(ds *appsv1.DaemonSet) string { return string(ds.UID) + " " + ds.ResourceVersion }

func versionsOf(revisions []*appsv1.ControllerRevision) string {
	versions := make([]string, 0, len(revisions))
	for _, r := range revisions {
		versions = append(versions, string(r.UID)+" "+r.ResourceVersion)
	}
	slices.Sort(versions)
	return strings.Join(versions, ",")
}
