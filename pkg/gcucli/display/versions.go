package display

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Kernel is the name of the kernel among components.
const Kernel = "kernel"

// noPod is the version of a component without a pod on a node where it belongs.
const noPod = "none"

// Versions are the versions on the nodes of a gr.
type Versions struct {
	GcuResource string `json:"gcuResource"`
	// PoolLabel is the label whose values are the pools; empty without pools.
	PoolLabel string `json:"poolLabel,omitempty"`
	// Counts, by pool, component and version.
	Counts []VersionCount `json:"counts"`
	// Nodes, by name, if they were asked for.
	Nodes []NodeVersions `json:"nodes,omitempty"`
}

// VersionCount says on how many nodes of a pool a component has a version.
type VersionCount struct {
	// Pool is the value of the label; empty for nodes without it.
	Pool string `json:"pool,omitempty"`
	// Component is its key in the gr, or kernel.
	Component string `json:"component"`
	// Version is the tag of its image; none where its pod is missing.
	Version string `json:"version"`
	// Wanted is the version that new pods get; empty for a kernel, and for a component that is leaving.
	Wanted string `json:"wanted,omitempty"`
	Nodes  int    `json:"nodes"`
}

// NodeVersions are the versions on a node.
type NodeVersions struct {
	Name   string `json:"name"`
	Pool   string `json:"pool,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Components are the versions by component; none where its pod is missing.
	Components map[string]string `json:"components"`
}

// VersionsOf returns the versions on every node where a component of a gr belongs; poolLabel is the
// label whose values are the pools, "" for none.
func VersionsOf(f *Fleet, poolLabel string) Versions {
	w := newWatch(f)
	v := Versions{GcuResource: f.Resource.Name, PoolLabel: poolLabel, Counts: []VersionCount{}}
	for i := range f.Nodes {
		node := &f.Nodes[i]
		if components := w.versionsOn(node); len(components) > 0 {
			v.Nodes = append(v.Nodes, NodeVersions{Name: node.Name, Pool: node.Labels[poolLabel], Kernel: node.Status.NodeInfo.KernelVersion, Components: components})
		}
	}
	slices.SortFunc(v.Nodes, func(a, b NodeVersions) int { return strings.Compare(a.Name, b.Name) })
	v.count(w.wanted())
	return v
}

// versionsOn returns the versions of the components that belong on a node.
func (w *watch) versionsOn(node *corev1.Node) map[string]string {
	on := map[string]string{}
	for i := range w.members {
		m := &w.members[i]
		pod, place := m.pods[node.Name], m.runs(node)
		name := m.set.Labels[topsv1.LabelComponent]
		switch {
		case pod == nil && !place.Create, pod != nil && !place.Keep, daemonset.IsLeaving(m.set) && (pod == nil || daemonset.IsPlaceholder(pod)):
		case pod == nil || pod.Spec.NodeName == "": // under another name its pod may run yet
			on[name] = cmp.Or(on[name], noPod)
		default:
			on[name] = daemonset.Version(&pod.Spec)
		}
	}
	return on
}

// wanted returns the versions that new pods get, by component.
func (w *watch) wanted() map[string]string {
	wanted := map[string]string{}
	for i := range w.members {
		if set := w.members[i].set; !daemonset.IsLeaving(set) {
			wanted[set.Labels[topsv1.LabelComponent]] = daemonset.Version(&set.Spec.Template.Spec)
		}
	}
	return wanted
}

// count adds the counts of the nodes.
func (v *Versions) count(wanted map[string]string) {
	counts := map[VersionCount]int{}
	for _, n := range v.Nodes {
		for name, version := range n.Components {
			counts[VersionCount{Pool: n.Pool, Component: name, Version: version, Wanted: wanted[name]}]++
		}
		if n.Kernel != "" {
			counts[VersionCount{Pool: n.Pool, Component: Kernel, Version: n.Kernel}]++
		}
	}
	for c, nodes := range counts {
		c.Nodes = nodes
		v.Counts = append(v.Counts, c)
	}
	slices.SortFunc(v.Counts, func(a, b VersionCount) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), compareComponents(a.Component, b.Component), cmp.Compare(a.Version, b.Version))
	})
}

// compareComponents orders components as they are deployed, the kernel last.
func compareComponents(a, b string) int {
	last := func(name string) int {
		if name == Kernel {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(component.Place(a), component.Place(b)), cmp.Compare(a, b))
}

// Text renders the nodes if there are any, otherwise the counts.
func (v Versions) Text(s Style) string {
	if len(v.Counts) == 0 {
		return "no node runs a component of gr " + v.GcuResource + "\n"
	}
	if len(v.Nodes) > 0 {
		return v.nodesText(s)
	}
	t := Table{Header: []string{"POOL", "COMPONENT", "VERSION", "WANTED", "NODES"}}
	for _, c := range v.Counts {
		row := cells(c.Pool, c.Component, shortDigest(c.Version), "", strconv.Itoa(c.Nodes))
		if c.Wanted != c.Version {
			row[3] = Cell{Text: shortDigest(c.Wanted), Tone: Busy}
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Text(s)
}

// nodesText renders a line for each node, with a column for each component.
func (v Versions) nodesText(s Style) string {
	there := map[string]bool{}
	for _, n := range v.Nodes {
		for name := range n.Components {
			there[name] = true
		}
	}
	components := slices.SortedFunc(maps.Keys(there), compareComponents)
	t := Table{Header: []string{"NODE", "POOL", "KERNEL"}}
	for _, name := range components {
		t.Header = append(t.Header, strings.ToUpper(name))
	}
	for _, n := range v.Nodes {
		row := cells(n.Name, n.Pool, n.Kernel)
		for _, name := range components {
			row = append(row, Cell{Text: shortDigest(n.Components[name])})
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Text(s)
}
