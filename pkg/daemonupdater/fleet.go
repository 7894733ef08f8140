package daemonupdater

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pass is one pass over a group: what it read, and what it decided.
type pass struct {
	*observed.State
	// rolloutUnseen: the cache does not show the rollout, which this process made.
	// Somebody may have deleted it since, and of that there would be no event.
	rolloutUnseen bool
	fleet         *fleet
	in            rollout.Input
	decision      rollout.Decision
}

// fleet is what is remembered of a group's nodes between passes, so that one
// node's event costs the work for that node. It follows the caches: events name
// the nodes to read again, and another key makes it anew.
type fleet struct {
	*rollout.Fleet
	// key is that of the state, and revision that of the input that the fleet was made with.
	key, revision string
	reported      *report.Nodes
	// confirmed are the members, by index, whose target was found to be the newest
	// past the cache.
	confirmed map[int]bool
}

func newFleet(s *observed.State, in *rollout.Input, nodes map[string]*observed.Node) *fleet {
	f := &fleet{Fleet: rollout.NewFleet(in), key: s.CacheKey(in), revision: in.Revision, reported: report.NewNodes(), confirmed: map[int]bool{}}
	zones := observed.Zones{}
	for name, n := range nodes {
		f.set(s, name, n, zones, in.Now)
	}
	return f
}

// set takes in what was read of a node.
func (f *fleet) set(s *observed.State, name string, of *observed.Node, zones observed.Zones, now time.Time) {
	f.reported.Set(s, name, of, now)
	if of.Object != nil {
		if n := s.RolloutNode(of, f.revision, zones, now); len(n.Pods) > 0 {
			f.Set(n, now)
			return
		}
	}
	f.Remove(name)
}

// holdsSlot reports whether a slot is left of a node that is still there.
func (f *fleet) holdsSlot(d *rollout.Decision) bool {
	return slices.ContainsFunc(d.Ledger.Slots, func(s rollout.Slot) bool { return f.Node(s.Node) != nil })
}

// fleetReader reads the nodes of groups, and remembers them.
type fleetReader struct {
	access
	fleets map[observed.Group]*fleet
}

// refresh brings the fleet of a group up to date: the nodes that events were about are
// read again, or all of them when the key changed.
func (r fleetReader) refresh(ctx context.Context, p *pass, changed []string) (err error) {
	p.fleet = r.fleets[p.Group]
	if p.fleet == nil || p.fleet.key != p.CacheKey(&p.in) {
		if p.fleet, err = r.readAll(ctx, p); err == nil {
			r.fleets[p.Group] = p.fleet
		}
		return err
	}
	for _, name := range changed {
		if err := r.readNode(ctx, p, name); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads all nodes with what is on them.
func (r fleetReader) readAll(ctx context.Context, p *pass) (*fleet, error) {
	var nodes corev1.NodeList
	if err := r.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var upgrades topsv1.NodeUpgradeList
	if err := r.List(ctx, &upgrades, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	pods := make([][]*corev1.Pod, len(p.Members))
	for i, m := range p.Members {
		var err error
		if pods[i], err = r.pods(ctx, m, string(m.DaemonSet.UID)); err != nil {
			return nil, err
		}
	}
	return newFleet(p.State, &p.in, observed.NodesByName(nodes.Items, pods, upgrades.Items)), nil
}

// readNode reads one node again with what is on it.
func (r fleetReader) readNode(ctx context.Context, p *pass, name string) error {
	n := &observed.Node{Object: &corev1.Node{}, Pods: make([][]*corev1.Pod, len(p.Members)), Upgrade: &topsv1.NodeUpgrade{}}
	key := client.ObjectKey{Name: name}
	if err := r.Get(ctx, key, n.Object, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		n.Object = nil
	} else if err != nil {
		return fmt.Errorf("getting node %s: %w", name, err)
	}
	if err := r.Get(ctx, key, n.Upgrade, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		n.Upgrade = nil
	} else if err != nil {
		return fmt.Errorf("getting NodeUpgrade %s: %w", name, err)
	}
	for i, m := range p.Members {
		var err error
		if n.Pods[i], err = r.pods(ctx, m, podsOnNode(m.DaemonSet.UID, name)); err != nil {
			return err
		}
	}
	p.fleet.set(p.State, name, n, observed.Zones{}, p.in.Now)
	return nil
}

// pods returns pods of a member by a value of the index controllerUID.
func (r fleetReader) pods(ctx context.Context, m observed.Member, index string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.List(ctx, &list, client.InNamespace(m.DaemonSet.Namespace), client.MatchingFields{controllerUID: index}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of DaemonSet %s: %w", m.Key(), err)
	}
	return observed.ByName(list.Items), nil
}

// confirmGone makes certain that the nodes of slots that are given back unseen are
// not in the group any more. It returns errStaleCache when the fleet is behind: the
// manager that gave such a slot may be about to delete a pod for it.
func (r fleetReader) confirmGone(ctx context.Context, p *pass) error {
	for i := range p.decision.Unseen {
		if err := r.confirmNodeGone(ctx, p, &p.decision.Unseen[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r fleetReader) confirmNodeGone(ctx context.Context, p *pass, slot *rollout.Slot) error {
	var live, cached corev1.Node
	key := client.ObjectKey{Name: slot.Node}
	err := r.live.Get(ctx, key, &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for node %s: %w", slot.Node, err)
	}
	if err != nil || live.UID != slot.UID {
		return nil
	}
	if err := r.Get(ctx, key, &cached); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting node %s: %w", slot.Node, err)
	}
	if cached.ResourceVersion != live.ResourceVersion {
		return fmt.Errorf("node %s: %w", slot.Node, errStaleCache)
	}
	if err := r.readNode(ctx, p, slot.Node); err != nil {
		return err
	}
	if p.fleet.Node(slot.Node) != nil {
		return fmt.Errorf("node %s: %w", slot.Node, errStaleCache)
	}
	return nil
}

// controllerUID indexes objects by the UID of their controller.
const controllerUID = ".metadata.controller.uid"

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
