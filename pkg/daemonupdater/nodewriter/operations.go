// Package nodewriter writes the operations and prepulls of a decision into NodeUpgrades.
package nodewriter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Writer writes spec.operation and spec.prepulls of NodeUpgrades.
type Writer struct {
	access.Cluster
	// Book says which components an operation replaces, and how.
	Book upgradeplan.LogicBook
	// Operations and Pulls retry denied writes.
	Operations, Pulls access.RequestKind
}

// errFormerNode means that a NodeUpgrade still belongs to a former Node. It is recreated once the garbage collector has
// deleted it.
var errFormerNode = errors.New("the NodeUpgrade belongs to a former Node object of this name and is not deleted yet")

// Operate carries out the operation changes of a decision whose ledger is stored: it writes spec.operation of
// NodeUpgrades. A suspended manager may do so much later; then the operation has ended, or the NodeUpgrade has
// changed, and nothing is written.
func (w Writer) Operate(ctx context.Context, p *pass.Pass) error {
	changes, changed := w.withGrants(ctx, p)
	return errors.Join(changed, access.InParallel(ctx, len(changes), func(i int) error {
		change := &changes[i]
		if !w.Operations.IsDue(p.Group, change.UID, p.In.Now) {
			return nil
		}
		err := w.operateOne(ctx, p, change)
		if errors.Is(err, errFormerNode) || podreplace.IsDeniedOrBroken(err) && !access.IsStale(err) {
			w.Operations.Postpone(ctx, p.Group, change.Node, change.UID, err, p.In.Now, "Operation denied", "operation", change.Operation)
			return nil
		}
		if err != nil {
			return fmt.Errorf("writing operation %s of node %s: %w", change.Operation, change.Node, err)
		}
		w.Operations.Allowed(p.Group, change.UID)
		return nil
	}))
}

// withGrants returns the operation changes of a decision. If a DaemonSet, read live, is not the observed one or has other
// settings, it leaves out the grants and returns an error: an operation whose scope has changed is not granted.
func (w Writer) withGrants(ctx context.Context, p *pass.Pass) ([]rollout.OperationChange, error) {
	changes := p.Decision.Operations
	grants := func(change rollout.OperationChange) bool { return change.Grant && !change.Abort }
	if !slices.ContainsFunc(changes, grants) {
		return changes, nil
	}
	for _, m := range p.Members {
		_, same, err := w.LiveDaemonSet(ctx, m)
		if err == nil && !same {
			err = podreplace.ErrChanged
		}
		if err != nil {
			return slices.DeleteFunc(slices.Clone(changes), grants), err
		}
	}
	return changes, nil
}

// operateOne carries out one operation change. It creates a missing operation without a grant, which a later pass gives:
// if the NodeUpgrade was deleted, its ended operations are unknown, and this manager may be late.
func (w Writer) operateOne(ctx context.Context, p *pass.Pass, change *rollout.OperationChange) error {
	var live topsv1.NodeUpgrade
	err := w.Live.Get(ctx, client.ObjectKey{Name: change.Node}, &live)
	if denial.IgnoreNotFound(err) != nil {
		return err
	}
	missing := err != nil
	if observed.OfOtherNode(&live, change) {
		return errFormerNode
	}
	next, makeNew := observed.NextOperation(&live, change, p.OperationKey())
	switch {
	case makeNew:
		node := p.Fleet.Node(change.Node)
		if node == nil || p.AwaitsFreeing(&live) {
			return podreplace.ErrChanged
		}
		if next, err = p.NewOperation(&p.In, w.Book, node, change.Operation); err != nil {
			return err
		}
		next.Abort = change.Abort
	case next == nil:
		return nil
	default:
		if err := w.confirmSlot(ctx, p, change); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Writing an operation", "Node", klog.KRef("", change.Node), "operation", change.Operation,
		"granted", next.Granted, "aborted", next.Abort)
	if missing {
		return w.Create(ctx, observed.NewNodeUpgrade(change, next), client.FieldOwner(topsv1.ManagedBy), access.StrictFields)
	}
	before := live.DeepCopy()
	live.Spec.Operation = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return w.Patch(ctx, &live, patch, client.FieldOwner(topsv1.ManagedBy), access.StrictFields)
}

// confirmSlot returns podreplace.ErrChanged if a change grants an operation and the ledger, read live, no longer has a
// slot for it.
func (w Writer) confirmSlot(ctx context.Context, p *pass.Pass, change *rollout.OperationChange) error {
	if !change.Grant || change.Abort {
		return nil
	}
	var live topsv1.DaemonRollout
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(p.Rollout), &live); err != nil {
		return fmt.Errorf("reading the ledger again: %w", err)
	}
	if !slices.ContainsFunc(live.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Operation == change.Operation }) {
		return podreplace.ErrChanged
	}
	return nil
}

// Cancel removes the operations of a group that has ended, by its OperationKey, "" for none: running ones are aborted,
// and their nodes uncordoned. It reports whether some have not ended.
func (w Writer) Cancel(ctx context.Context, own string) (left bool, err error) {
	if own == "" {
		return false, nil
	}
	all, err := w.upgradesOf(ctx, nil, true)
	if err != nil {
		return false, err
	}
	var asked []*topsv1.NodeUpgrade
	for _, u := range all {
		if op := u.Spec.Operation; op != nil && op.Rollout == own {
			asked = append(asked, u)
		}
		if shown := u.Status.Operation; shown != nil && shown.Rollout == own && (!shown.Phase.Final() || shown.Held) {
			left = true
		}
	}
	return left || len(asked) > 0, w.remove(ctx, asked)
}

// CancelLeft removes the operations of a group that has ended from these nodes, with all from all nodes: those that the cache did not
// show while it ended, or that another manager wrote later. Nobody would grant them. A group with operations has a DaemonRollout,
// unless it has ended, so that is looked for live.
func (w Writer) CancelLeft(ctx context.Context, p *pass.Pass, nodes []string, all bool) error {
	own := p.OperationKey()
	if own == "" {
		return nil
	}
	upgrades, err := w.upgradesOf(ctx, nodes, all)
	upgrades = slices.DeleteFunc(upgrades, func(u *topsv1.NodeUpgrade) bool { return u.Spec.Operation == nil || u.Spec.Operation.Rollout != own })
	if err != nil || len(upgrades) == 0 {
		return err
	}
	var live topsv1.DaemonRollout
	err = w.Live.Get(ctx, client.ObjectKeyFromObject(p.Rollout), &live)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the DaemonRollout of operations that are left: %w", err)
	}
	if err == nil && live.BelongsTo(p.Group.Kind, p.Group.Name) {
		return podreplace.ErrChanged
	}
	return w.remove(ctx, upgrades)
}

// upgradesOf returns the NodeUpgrades of these nodes, with all of all nodes.
func (w Writer) upgradesOf(ctx context.Context, nodes []string, all bool) (upgrades []*topsv1.NodeUpgrade, err error) {
	if all {
		var list topsv1.NodeUpgradeList
		if err := w.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
		}
		for i := range list.Items {
			upgrades = append(upgrades, &list.Items[i])
		}
		return upgrades, nil
	}
	for _, node := range nodes {
		u := &topsv1.NodeUpgrade{}
		err := w.Get(ctx, client.ObjectKey{Name: node}, u, client.UnsafeDisableDeepCopy)
		if denial.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("getting NodeUpgrade %s: %w", node, err)
		}
		if err == nil {
			upgrades = append(upgrades, u)
		}
	}
	return upgrades, nil
}

// remove removes the operations of NodeUpgrades.
func (w Writer) remove(ctx context.Context, asked []*topsv1.NodeUpgrade) error {
	return access.InParallel(ctx, len(asked), func(i int) error {
		next := asked[i].DeepCopy()
		next.Spec.Operation = nil
		patch := client.MergeFromWithOptions(asked[i], client.MergeFromWithOptimisticLock{})
		err := w.Patch(ctx, next, patch, client.FieldOwner(topsv1.ManagedBy))
		if denial.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the operation of node %s: %w", next.Name, err)
		}
		return nil
	})
}
