package daemonupdater

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// view is what is remembered of a group's nodes between passes, so that one
// node's event costs the work for that node. It follows the caches: events name
// the nodes to read again, and a frame that changed makes it anew.
type view struct {
	// frame is what facts of a node depend on besides the node.
	frame string
	// revision is that of the input that the view was made with.
	revision string
	fleet    *rollout.Fleet
	nodes    map[string]*nodeView
	// asking are the nodes with a request that is to be answered.
	asking map[string]bool
	// confirmed are the members, by index, whose target was found to be the newest
	// past the cache.
	confirmed map[int]bool
	// unmarked are the nodes whose pods' conditions are to be looked at, and
	// marking is what it depended on when all were looked at last.
	unmarked map[string]bool
	marking  marking
}

// nodeView is what is read of one node.
type nodeView struct {
	// pods of all members, also such as are one too many.
	pods []podView
	// upgrade holds the node's requests, nil when there are none to answer.
	upgrade *topsv1.NodeUpgrade
	// pulls that the node's agent tells of.
	pulls []topsv1.ImagePull
}

// podView is what is read of one pod besides rollout.Pod.
type podView struct {
	namespace, name string
	uid             types.UID
	revision        string
	member          int
	terminating     bool
	// Conditions of ours, nil when absent.
	needUpgrade, imageReady *corev1.PodCondition
}

// dirtyNodes remembers, per group, which nodes events were about since the last
// pass. It is safe for concurrent use.
type dirtyNodes struct {
	mu    sync.Mutex
	names map[Group]map[string]bool
}

func (d *dirtyNodes) add(g Group, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names = map[Group]map[string]bool{}
	}
	if d.names[g] == nil {
		d.names[g] = map[string]bool{}
	}
	d.names[g][node] = true
}

// take returns the nodes of a group, sorted, and forgets them.
func (d *dirtyNodes) take(g Group) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := slices.Sorted(maps.Keys(d.names[g]))
	delete(d.names, g)
	return names
}

// frameOf names what facts of a node depend on besides the node: which pods are
// whose, where they should run, when they are available, and what is looked at
// of a node.
func frameOf(o *observation, in *rollout.Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %q", in.Settings.Strategy, in.Blocked != nil, in.Settings.Only)
	for i, m := range o.members {
		fmt.Fprintf(&b, " %s/%d/%s", m.daemonSet.UID, m.daemonSet.Generation, in.Members[i].Target)
	}
	if o.policy != nil {
		fmt.Fprintf(&b, " %s/%d", o.policy.UID, o.policy.Generation)
	}
	return b.String()
}

// look brings the view of a group up to date: the nodes that events were about
// are read again, or all of them when the frame changed.
func (r *Reconciler) look(ctx context.Context, o *observation, in *rollout.Input, dirty []string) error {
	o.view = r.views[o.group]
	if o.view == nil || o.view.frame != frameOf(o, in) {
		var err error
		if o.view, err = r.readFleet(ctx, o, in); err != nil {
			return err
		}
		r.views[o.group] = o.view
		return nil
	}
	for _, name := range dirty {
		if err := r.readNode(ctx, o, name, in.Now); err != nil {
			return err
		}
	}
	return nil
}

// found is what the caches have of one node; each part may be missing.
type found struct {
	node *corev1.Node
	// pods has one list per member.
	pods    [][]*corev1.Pod
	upgrade *topsv1.NodeUpgrade
}

// readFleet reads all nodes with what is on them.
func (r *Reconciler) readFleet(ctx context.Context, o *observation, in *rollout.Input) (*view, error) {
	var nodes corev1.NodeList
	if err := r.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var upgrades topsv1.NodeUpgradeList
	if err := r.List(ctx, &upgrades, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	pods := make([][]*corev1.Pod, len(o.members))
	for i, m := range o.members {
		var err error
		if pods[i], err = r.podsOf(ctx, m, string(m.daemonSet.UID)); err != nil {
			return nil, err
		}
	}
	return newView(o, in, nodes.Items, pods, upgrades.Items), nil
}

// newView makes a view of everything there is; pods has one list per member.
func newView(o *observation, in *rollout.Input, nodes []corev1.Node, pods [][]*corev1.Pod, upgrades []topsv1.NodeUpgrade) *view {
	all := foundOf(o, nodes, pods, upgrades)
	v := &view{
		frame: frameOf(o, in), revision: in.Revision, fleet: rollout.NewFleet(in), nodes: make(map[string]*nodeView, len(all)),
		asking: map[string]bool{}, confirmed: map[int]bool{}, unmarked: map[string]bool{},
	}
	known := zones{}
	for name, f := range all {
		v.set(o, name, f, known, in.Now)
	}
	return v
}

// foundOf puts together what there is of each node; pods has one list per member.
func foundOf(o *observation, nodes []corev1.Node, pods [][]*corev1.Pod, upgrades []topsv1.NodeUpgrade) map[string]*found {
	all := make(map[string]*found, len(nodes))
	on := func(name string) *found {
		if all[name] == nil {
			all[name] = &found{pods: make([][]*corev1.Pod, len(o.members))}
		}
		return all[name]
	}
	for i := range nodes {
		on(nodes[i].Name).node = &nodes[i]
	}
	for i := range upgrades {
		on(upgrades[i].Name).upgrade = &upgrades[i]
	}
	for member, list := range pods {
		for _, pod := range list {
			f := on(daemonset.NodeName(pod))
			f.pods[member] = append(f.pods[member], pod)
		}
	}
	return all
}

// readNode reads one node again with what is on it.
func (r *Reconciler) readNode(ctx context.Context, o *observation, name string, now time.Time) error {
	f := &found{node: &corev1.Node{}, pods: make([][]*corev1.Pod, len(o.members)), upgrade: &topsv1.NodeUpgrade{}}
	key := client.ObjectKey{Name: name}
	if err := r.Get(ctx, key, f.node, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		f.node = nil
	} else if err != nil {
		return fmt.Errorf("getting node %s: %w", name, err)
	}
	if err := r.Get(ctx, key, f.upgrade, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		f.upgrade = nil
	} else if err != nil {
		return fmt.Errorf("getting NodeUpgrade %s: %w", name, err)
	}
	for i, m := range o.members {
		var err error
		if f.pods[i], err = r.podsOf(ctx, m, podsOnNode(m.daemonSet.UID, name)); err != nil {
			return err
		}
	}
	o.view.set(o, name, f, zones{}, now)
	return nil
}

// podsOf returns pods of a member by a value of the index controllerUID.
func (r *Reconciler) podsOf(ctx context.Context, m member, index string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.List(ctx, &list, client.InNamespace(m.daemonSet.Namespace), client.MatchingFields{controllerUID: index}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of DaemonSet %s: %w", m.key(), err)
	}
	return pointers(list.Items, func(p *corev1.Pod) string { return p.Name }), nil
}

// set takes in what was found of a node.
func (v *view) set(o *observation, name string, f *found, known zones, now time.Time) {
	seen := &nodeView{}
	for member, list := range f.pods {
		for _, pod := range list {
			seen.pods = append(seen.pods, podViewOf(member, pod))
		}
	}
	if f.upgrade != nil {
		seen.pulls = slices.Clone(f.upgrade.Status.Pulls)
	}
	delete(v.asking, name)
	if f.upgrade != nil && unanswered(f.upgrade) {
		seen.upgrade = f.upgrade.DeepCopy()
		v.asking[name] = true
	}
	v.nodes[name] = seen
	if len(seen.pods) == 0 && seen.upgrade == nil {
		delete(v.nodes, name)
	}
	v.unmarked[name] = true
	if f.node != nil {
		if n := nodeOf(o, f, v.revision, known, now); len(n.Pods) > 0 {
			v.fleet.Set(n, now)
			return
		}
	}
	v.fleet.Remove(name)
}

// alive reports whether a pod is on a node and not going away.
func (v *view) alive(node string, uid types.UID) bool {
	n := v.nodes[node]
	return n != nil && slices.ContainsFunc(n.pods, func(p podView) bool { return p.uid == uid && !p.terminating })
}

// unfenced reports whether a slot is left of a node that is still there.
func (v *view) unfenced(d *rollout.Decision) bool {
	return slices.ContainsFunc(d.Ledger.Slots, func(s rollout.Slot) bool { return v.fleet.Node(s.Node) != nil })
}

// upgrades returns the NodeUpgrades that are to be answered, sorted by name.
func (v *view) upgrades() []*topsv1.NodeUpgrade {
	var list []*topsv1.NodeUpgrade
	for name := range v.asking {
		list = append(list, v.nodes[name].upgrade)
	}
	slices.SortFunc(list, func(a, b *topsv1.NodeUpgrade) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func podViewOf(member int, pod *corev1.Pod) podView {
	p := podView{
		namespace: pod.Namespace, name: pod.Name, uid: pod.UID, member: member,
		revision: daemonset.RevisionHash(pod), terminating: pod.DeletionTimestamp != nil,
	}
	if c := daemonset.NeedUpgrade(pod); c != nil {
		p.needUpgrade = c.DeepCopy()
	}
	if c := daemonset.ImageReady(pod); c != nil {
		p.imageReady = c.DeepCopy()
	}
	return p
}

// podsOnNode is the value of the index controllerUID for the pods of a
// controller on one node.
func podsOnNode(controller types.UID, node string) string { return string(controller) + "/" + node }

// indexByController is the index controllerUID: objects by the UID of their
// controller, pods also by that and their node.
func indexByController(object client.Object) []string {
	ref := metav1.GetControllerOf(object)
	if ref == nil {
		return nil
	}
	values := []string{string(ref.UID)}
	if pod, ok := object.(*corev1.Pod); ok {
		values = append(values, podsOnNode(ref.UID, daemonset.NodeName(pod)))
	}
	return values
}
