package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/heartbeat"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// fleetReader reads the nodes of groups, and keeps them between passes.
type fleetReader struct {
	access.Cluster
	fleets        map[observed.Group]*pass.Fleet
	gate          gating.Mode
	lastRevisions map[observed.Group]gating.LastRevisions
	attempts      *deletion.AllAttempts
}

// refresh updates the fleet of a group: it reads the changed nodes again, or all nodes if the fleet was made from other
// settings or targets, or the clock was set back.
func (r fleetReader) refresh(ctx context.Context, p *pass.Pass, changed []string) (err error) {
	p.Fleet = r.fleets[p.Group]
	if !p.Fleet.IsFor(p.State, &p.In) {
		if p.Fleet, err = r.readAll(ctx, p); err == nil {
			r.fleets[p.Group] = p.Fleet
		}
		return err
	}
	p.Fleet.PassedAt = p.In.Now.Round(0) // drops the reading of the monotonic clock, by which nothing jumps
	for _, name := range p.Fleet.ToRead(p.State, changed) {
		if err := r.readNode(ctx, p, name); err != nil {
			return err
		}
	}
	heartbeat.Refresh(ctx, r.Live, p.Fleet, p.In.Now)
	return r.CorrectSlots(ctx, p.Members, p.Fleet.Fleet, p.In.Ledger.Slots, p.In.Now.Add(-deletion.RedeleteAfter))
}

// readAll reads all nodes with their pods and NodeUpgrades.
func (r fleetReader) readAll(ctx context.Context, p *pass.Pass) (*pass.Fleet, error) {
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
	if r.gate.Active() && r.lastRevisions[p.Group] == nil {
		r.lastRevisions[p.Group] = gating.LastRevisions{}
	}
	return pass.NewFleet(p.State, &p.In, r.lastRevisions[p.Group], r.attempts, observed.SetNodes(p.State, nodes.Items, upgrades.Items, pods)), nil
}

// readNode reads one node again, with its pods and NodeUpgrade.
func (r fleetReader) readNode(ctx context.Context, p *pass.Pass, name string) error {
	node, upgrade, pods := &corev1.Node{}, &topsv1.NodeUpgrade{}, make([][]*corev1.Pod, len(p.Members))
	key := client.ObjectKey{Name: name}
	if err := r.Get(ctx, key, node, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return fmt.Errorf("getting node %s: %w", name, err)
	}
	if err := r.Get(ctx, key, upgrade, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		upgrade = nil
	} else if err != nil {
		return fmt.Errorf("getting NodeUpgrade %s: %w", name, err)
	}
	for i, m := range p.Members {
		var err error
		if pods[i], err = r.pods(ctx, m, podsOnNode(m.DaemonSet.UID, name)); err != nil {
			return err
		}
	}
	observed.SetNode(p.State, name, node, upgrade, pods...)
	p.Fleet.Update(p.State, name, p.In.Now)
	return nil
}

// pods returns the pods of a member by a value of the index controllerUID.
func (r fleetReader) pods(ctx context.Context, m observed.Member, index string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.List(ctx, &list, client.InNamespace(m.DaemonSet.Namespace), client.MatchingFields{controllerUID: index}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of DaemonSet %s: %w", m.Key(), err)
	}
	return observed.ByName(list.Items), nil
}

// confirmNodesGone confirms live that the nodes of unseen slots are no longer in the group, and that operations that the
// decision gives up as never created are not on their nodes. It returns podreplace.ErrChanged if the fleet is stale: the
// manager that gave such a slot may be about to delete a pod for it.
func (r fleetReader) confirmNodesGone(ctx context.Context, p *pass.Pass) error {
	left := map[string]*corev1.Node{}
	for i := range p.Decision.Unseen {
		if err := r.confirmNodeGone(ctx, p, &p.Decision.Unseen[i], left); err != nil {
			return err
		}
	}
	for i := range p.Decision.WithoutOperation {
		if err := r.confirmNoOperation(ctx, &p.Decision.WithoutOperation[i]); err != nil {
			return err
		}
	}
	return errors.Join(r.confirmPods(ctx, p, left), r.ConfirmVacated(ctx, p.Members, p.Decision.Vacated))
}

// confirmNoOperation confirms live that the operation of a slot is not on its node.
func (r fleetReader) confirmNoOperation(ctx context.Context, slot *rollout.Slot) error {
	var live topsv1.NodeUpgrade
	if err := r.Live.Get(ctx, client.ObjectKey{Name: slot.Node}, &live); denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the operation of node %s: %w", slot.Node, err)
	}
	if op := live.Spec.Operation; op != nil && op.ID == slot.Operation {
		return fmt.Errorf("the operation of node %s is not seen yet: %w", slot.Node, podreplace.ErrChanged)
	}
	return nil
}

// confirmNodeGone confirms live that the node of a slot is gone, or left the group: then it adds the node to left.
func (r fleetReader) confirmNodeGone(ctx context.Context, p *pass.Pass, slot *rollout.Slot, left map[string]*corev1.Node) error {
	var live, cached corev1.Node
	key := client.ObjectKey{Name: slot.Node}
	err := r.Live.Get(ctx, key, &live)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for node %s: %w", slot.Node, err)
	}
	if err != nil || live.UID != slot.UID {
		return nil
	}
	if err := r.Get(ctx, key, &cached); denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting node %s: %w", slot.Node, err)
	}
	if cached.ResourceVersion == live.ResourceVersion {
		if err := r.readNode(ctx, p, slot.Node); err != nil {
			return err
		}
		if p.Fleet.Node(slot.Node) == nil {
			left[slot.Node] = &live
			return nil
		}
	}
	return fmt.Errorf("node %s: %w", slot.Node, podreplace.ErrChanged)
}

// confirmPods confirms live that no pod is left that matters to an unseen slot. left are the nodes that left the group, the
// other nodes are gone. It lists the pods of a member once, and only if such a slot may concern them.
func (r fleetReader) confirmPods(ctx context.Context, p *pass.Pass, left map[string]*corev1.Node) (err error) {
	for _, m := range p.Members {
		named := func(slot rollout.Slot) bool { return slot.PodVersion != "" && slices.Contains(slot.Members, m.Key()) }
		if len(left) == 0 && !slices.ContainsFunc(p.Decision.Unseen, named) {
			continue
		}
		pods, unread := r.LivePods(ctx, m)
		if unread != nil {
			return unread
		}
		err = errors.Join(err, r.fenceLeftovers(ctx, p, left, pods), access.ConfirmNoPods(m, left, pods))
	}
	return err
}

// fenceLeftovers fences the live pods that unseen slots name: a Node may return to the group, or another one get its name,
// and with it the pod, before the pod is deleted. It returns podreplace.ErrChanged until the deletions that the slots permit
// can no longer happen.
func (r fleetReader) fenceLeftovers(ctx context.Context, p *pass.Pass, left map[string]*corev1.Node, pods []corev1.Pod) error {
	versions := map[types.UID]string{}
	for i := range p.Decision.Unseen {
		versions[p.Decision.Unseen[i].Pod] = p.Decision.Unseen[i].PodVersion
	}
	var leftovers []*corev1.Pod
	for i := range pods {
		if pod := &pods[i]; pod.ResourceVersion == versions[pod.UID] && pod.DeletionTimestamp == nil {
			leftovers = append(leftovers, pod)
		}
	}
	if len(leftovers) == 0 {
		return nil
	}
	var fenced atomic.Int32
	err := access.InParallel(ctx, len(leftovers), func(i int) error {
		err := r.Replacer().Fence(ctx, leftovers[i], p.In.Now, "its node has left the rollout")
		if left[daemonset.NodeName(leftovers[i])] != nil && podreplace.IsDeniedOrBroken(err) {
			return nil // its pod goes anyway, and must not hold up the group
		}
		fenced.Add(1)
		return err
	})
	if n := fenced.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d pods of nodes that left: %w", n, podreplace.ErrChanged)
	}
	return err
}

// controllerUID indexes objects by the UID of their controller.
const controllerUID = ".metadata.controller.uid"

// podsOnNode returns the value of the index controllerUID for the pods of a controller on one
// node.
func podsOnNode(controller types.UID, node string) string { return string(controller) + "/" + node }

// indexByController indexes objects by the UID of their controller, and pods also by that UID with
// their node.
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
