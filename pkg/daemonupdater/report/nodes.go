package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Nodes caches what the reports about the nodes of a group need: the conditions of their pods, and the
// requests to answer.
type Nodes struct {
	nodes map[string]*node
	// asking are the nodes with a request to answer.
	asking map[string]bool
	// unchecked are the nodes whose pod conditions have to be checked: all nodes after a change of
	// basis.
	unchecked map[string]bool
	// postponed are those among them with a pod that was not due when they were last checked.
	postponed map[string]bool
	basis     needUpgradeInputs
	// sent is the number of patches since second, the start of the current second.
	second time.Time
	sent   int
	// next is the first node that was left for the next second, "" if none was.
	next string
	// ends: the control over the group ends.
	ends bool
}

// node is what the reports about one node need.
type node struct {
	// pods of all members, including surplus ones.
	pods []pod
	// upgrade has the node's requests, nil if there are none to answer.
	upgrade *topsv1.NodeUpgrade
	// pulls are the image pulls that the node's agent reports.
	pulls []topsv1.ImagePull
}

// NewNodes returns an empty cache.
func NewNodes() *Nodes {
	return &Nodes{nodes: map[string]*node{}, asking: map[string]bool{}, unchecked: map[string]bool{}, postponed: map[string]bool{}}
}

// Set updates a node from what was read of it.
func (n *Nodes) Set(s *observed.State, name string, now time.Time) {
	seen, object, upgrade := &node{}, s.Nodes[name], s.Upgrades[name]
	for i, m := range s.Members {
		for _, pod := range m.Pods[name] {
			p := podOf(m, i, pod, now)
			if object != nil {
				p.Unverified = observed.IsUnverified(s, object, upgrade, m)
			}
			if upgrade != nil {
				p.needsRestart = upgrade.Status.Host.NeedsRestart()
			}
			seen.pods = append(seen.pods, p)
		}
	}
	if upgrade != nil {
		seen.pulls = slices.Clone(upgrade.Status.Pulls)
	}
	delete(n.asking, name)
	if upgrade != nil && observed.Unanswered(upgrade) {
		seen.upgrade = upgrade.DeepCopy()
		n.asking[name] = true
	}
	n.nodes[name] = seen
	if len(seen.pods) == 0 && seen.upgrade == nil {
		delete(n.nodes, name)
	}
	n.unchecked[name] = true
}

// Runs reports whether a pod is on a node and not terminating.
func (n *Nodes) Runs(name string, uid types.UID) bool {
	on := n.nodes[name]
	return on != nil && slices.ContainsFunc(on.pods, func(p pod) bool { return p.UID == uid && !p.Terminating })
}

// Asking returns the NodeUpgrades with requests to answer, sorted by name.
func (n *Nodes) Asking() []*topsv1.NodeUpgrade {
	var list []*topsv1.NodeUpgrade
	for name := range n.asking {
		list = append(list, n.nodes[name].upgrade)
	}
	slices.SortFunc(list, func(a, b *topsv1.NodeUpgrade) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// PodPatch changes only our conditions of one pod.
type PodPatch struct {
	Namespace, Name string
	UID             types.UID
	Data            []byte
	// Node is the node of the pod, for retries.
	Node string
}

// maxPatches bounds the patches of one second, so that condition changes in a large fleet neither
// delay the rollout nor keep the API server busy.
const maxPatches = 200

// PodPatches returns the patches that bring PodNeedUpgrade and PodImageReady of the group's pods
// up to date, at most about maxPatches per second; more reports whether nodes are left for the next
// second. It checks only nodes that Set or Decided has named, and checks them again until Patched confirms
// that their patches were applied: those that are left first. isDue reports whether a pod may be patched now.
func (n *Nodes) PodPatches(in *rollout.Input, d *rollout.Decision, isDue func(pod types.UID) bool) (patches []PodPatch, more bool, err error) {
	if in.Now.Sub(n.second).Abs() >= time.Second {
		n.second, n.sent = in.Now, 0
	}
	defer func() { n.sent += len(patches) }()
	names := slices.Sorted(maps.Keys(n.unchecked))
	first, _ := slices.BinarySearch(names, n.next)
	n.next = ""
	for _, name := range slices.Concat(names[first:], names[:first]) {
		if n.sent+len(patches) >= maxPatches {
			n.next = name
			return patches, true, nil
		}
		wanted, err := n.patchesOf(name, in, d)
		if err != nil {
			return nil, false, err
		}
		if delete(n.postponed, name); len(wanted) == 0 {
			delete(n.unchecked, name)
		}
		for i := range wanted {
			if !isDue(wanted[i].UID) {
				n.postponed[name] = true
				continue
			}
			patches = append(patches, wanted[i])
		}
	}
	return patches, false, nil
}

// BeginsToEnd notes whether the control over the group ends, and reports whether it did not so far.
func (n *Nodes) BeginsToEnd(ends bool) (begins bool) {
	begins, n.ends = ends && !n.ends, ends
	return begins
}

// Decided has the nodes checked again that a decision changes, whatever becomes of it.
func (n *Nodes) Decided(in *rollout.Input, d *rollout.Decision) {
	if now := needUpgradeInputsOf(in, d); now != n.basis {
		n.basis = now
		for name := range n.nodes {
			n.unchecked[name] = true
		}
	}
	for _, name := range d.Advanced {
		n.unchecked[name] = true
	}
	for i := range in.Ledger.Slots {
		if !d.HasSlot(in.Ledger.Slots[i].Node) {
			n.unchecked[in.Ledger.Slots[i].Node] = true // it gave its slot back
		}
	}
	for i := range in.Ledger.Failures {
		name := in.Ledger.Failures[i].Node
		_, fails := slices.BinarySearchFunc(d.Ledger.Failures, name, func(f rollout.Failure, name string) int { return cmp.Compare(f.Node, name) })
		if !fails {
			n.unchecked[name] = true // its failure was cleared
		}
	}
}

// patchesOf returns the patches that the pods of a node need.
func (n *Nodes) patchesOf(name string, in *rollout.Input, d *rollout.Decision) (patches []PodPatch, err error) {
	on := n.nodes[name]
	if on == nil {
		return nil, nil
	}
	verdict, _ := d.Verdict(name)
	for i := range on.pods {
		p := &on.pods[i]
		data, err := conditionsPatch(p, in, &verdict, on.pulls)
		if err != nil {
			return nil, err
		}
		if data != nil {
			patches = append(patches, PodPatch{Namespace: p.namespace, Name: p.Name, UID: p.UID, Data: data, Node: name})
		}
	}
	return patches, nil
}

// Patched records that the pods of a node that were due have the desired conditions.
func (n *Nodes) Patched(name string) {
	if !n.postponed[name] {
		delete(n.unchecked, name)
	}
}

// conditionsPatch returns the patch of one pod, nil if it needs none. pulls are what the agent of its node
// reports.
func conditionsPatch(p *pod, in *rollout.Input, verdict *rollout.Verdict, pulls []topsv1.ImagePull) ([]byte, error) {
	if p.Terminating {
		return nil, nil
	}
	var changes []any
	for _, change := range []map[string]any{needUpgradeChange(p, in, verdict), imageReadyChange(p, in, pulls)} {
		if change != nil {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return conditionPatch(p, changes...)
}
