package state

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
)

// Assess returns the health of a component on nodes with the labels they will have (see
// NodeIndex). now is for minReadySeconds.
func (o *Observation) Assess(c *Component, nodes *NodeIndex, now time.Time) Health {
	if !c.exists() {
		return Health{PerNode: c.PerNode != nil}
	}
	var h Health
	switch {
	case c.PerNode == nil:
		h = assessReplicas(c)
	case c.CachedPods == nil:
		h = assessNodes(c, nodes, now)
	default:
		h = o.Cache.nodeHealth(c, nodes, now)
	}
	if len(h.Driverless) > 0 && o.deploysDriver() {
		h.Driverless = nil
	}
	for i := range c.Objects {
		ref := c.Objects[i].Ref
		switch live := c.Live[ref]; {
		case ref.Shared() || ref.Workload() && live != nil:
		case live == nil:
			h.Absent = append(h.Absent, ref.String())
		case live.DeletionTimestamp != nil:
			h.Absent = append(h.Absent, ref.String()+" (being deleted, recreated afterwards)")
		}
	}
	return h
}

func requestsDriver(gr *topsv1.GcuResource) bool {
	return slices.Contains(component.Requested(&gr.Spec), component.Driver)
}

// deploysDriver reports whether any gr deploys the driver.
func (o *Observation) deploysDriver() bool {
	return requestsDriver(o.Resource) || slices.ContainsFunc(o.Others, func(other topsv1.GcuResource) bool { return requestsDriver(&other) })
}

// GCUNodes returns the names of the GCU nodes, sorted, including offline ones.
func (o *Observation) GCUNodes() []string {
	if o.CachedNodes == nil {
		return nodelabel.GCUNodes(o.Nodes)
	}
	return slices.Clone(o.CachedNodes.gcu)
}

// NotAllowed returns the names of the nodes with a GCU that admission keeps from running components, sorted.
func (o *Observation) NotAllowed() []string {
	if o.CachedNodes == nil {
		return nodelabel.NotAllowed(o.Nodes)
	}
	return o.CachedNodes.notAllowed
}

// NodeIndex returns the nodes as they will be once the gr has labeled them.
func (o *Observation) NodeIndex() *NodeIndex {
	if o.CachedNodes == nil {
		return NewNodeIndex(nodelabel.Anticipated(o.Nodes, o.Resource), o.Hosts)
	}
	return o.Cache.indexFor(o.Resource, o.CachedNodes)
}

// nodeHealth caches the result of assessNodes for the same objects, unless it depends
// on time.
func (c *Cache) nodeHealth(of *Component, nodes *NodeIndex, now time.Time) Health {
	is := assessed{of.CachedPods, nodes, versionOf(of.DaemonSet), versionsOf(of.Revisions)}
	if was, known := c.health[of.Name]; known && was.of == is {
		return was.health
	}
	h := assessNodes(of, nodes, now)
	if h.Wait == 0 {
		c.health[of.Name] = cachedHealth{is, h}
	}
	return h
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
