package gcuresource

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kept is what a pass leaves to the next one over the same gr, so that it looks
// again only at what changed: on a large fleet that is a pod or none. Nothing in
// it is trusted: it holds for exactly the objects it was made of, and the cache
// puts another object in the place of one that changes.
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

// objectSet is a set of objects of the cache. As long as it is there, none of
// their addresses can be another object's.
type objectSet map[any]struct{}

func setOf(objects []any) objectSet {
	set := make(objectSet, len(objects))
	for _, o := range objects {
		set[o] = struct{}{}
	}
	return set
}

// is tells whether a list has just the objects of the set.
func (s objectSet) is(objects []any) bool {
	if s == nil || len(s) != len(objects) {
		return false
	}
	for _, o := range objects {
		if _, known := s[o]; !known {
			return false
		}
	}
	return true
}

// keptNodes are all nodes, sorted by name.
type keptNodes struct {
	set  objectSet
	list []*corev1.Node
}

// sorted returns the nodes among objects, sorted by name: those kept when they are the same.
func (k *kept) sorted(objects []any) *keptNodes {
	if k.nodes != nil && k.nodes.set.is(objects) {
		return k.nodes
	}
	k.nodes = &keptNodes{set: setOf(objects)}
	for _, o := range objects {
		if node, ok := o.(*corev1.Node); ok {
			k.nodes.list = append(k.nodes.list, node)
		}
	}
	slices.SortFunc(k.nodes.list, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return k.nodes
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

// keptPods are the pods of a component that runs on nodes, chosen among those of
// the set while its DaemonSet had a UID and somebody else's of its name another.
type keptPods struct {
	set      objectSet
	foreign  types.UID
	selected []*corev1.Pod
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
