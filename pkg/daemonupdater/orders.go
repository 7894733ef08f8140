package daemonupdater

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// give carries out the orders of a decision whose ledger is stored: it writes
// spec.operation of NodeUpgrades. A manager that was interrupted before it may do
// so much later; then the operation has ended, or the NodeUpgrade has moved.
func (r *Reconciler) give(ctx context.Context, o *observation, in *rollout.Input, orders []rollout.Order) error {
	return each(ctx, len(orders), func(i int) error {
		if err := r.giveOne(ctx, o, in, &orders[i]); err != nil {
			return fmt.Errorf("ordering operation %s of node %s: %w", orders[i].Operation, orders[i].Node, err)
		}
		return nil
	})
}

// giveOne gives one order. An operation that is not there is made without a grant,
// which the next pass gives: of a NodeUpgrade that was deleted nobody can tell which
// operations have ended, and this manager may be late.
func (r *Reconciler) giveOne(ctx context.Context, o *observation, in *rollout.Input, order *rollout.Order) error {
	var live topsv1.NodeUpgrade
	err := r.Live.Get(ctx, client.ObjectKey{Name: order.Node}, &live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := err != nil
	if ofOtherNode(&live, order) {
		return errMoved // it goes with its Node, and another one is made then
	}
	next, verb := ordered(&live, order, rolloutOf(o))
	switch verb {
	case nothing:
		return nil
	case amend:
		if err := r.confirmSlot(ctx, o, order); err != nil {
			return err
		}
	case makeNew:
		node := o.view.fleet.Node(order.Node)
		if node == nil {
			return errMoved
		}
		if next, err = operationOf(o, in, r.Book, node, order.Operation); err != nil {
			return err
		}
		next.Abort = order.Abort
	}
	log.FromContext(ctx).Info("Ordering an operation", "Node", klog.KRef("", order.Node), "operation", order.Operation,
		"granted", next.Granted, "aborted", next.Abort)
	if missing {
		return r.Create(ctx, newNodeUpgrade(order, next), client.FieldOwner(topsv1.ManagedBy))
	}
	before := live.DeepCopy()
	live.Spec.Operation = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return r.Patch(ctx, &live, patch, client.FieldOwner(topsv1.ManagedBy))
}

// confirmSlot returns errMoved when an operation is to be granted and the ledger, read
// past the cache, has no slot for it any more.
func (r *Reconciler) confirmSlot(ctx context.Context, o *observation, order *rollout.Order) error {
	if !order.Grant || order.Abort {
		return nil
	}
	var live topsv1.DaemonRollout
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.rollout), &live); err != nil {
		return fmt.Errorf("reading the ledger again: %w", err)
	}
	if !slices.ContainsFunc(live.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Operation == order.Operation }) {
		return errMoved
	}
	return nil
}

// ofOtherNode reports whether a NodeUpgrade belongs to a Node object of before that had
// the name.
func ofOtherNode(upgrade *topsv1.NodeUpgrade, order *rollout.Order) bool {
	return slices.ContainsFunc(upgrade.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == order.Node && o.UID != order.UID
	})
}

// verb is what an order needs.
type verb int

const (
	nothing verb = iota
	amend
	makeNew
)

// ordered says what an order needs of a NodeUpgrade as it is: nothing, when the
// operation has ended or is as ordered, or when another one is at work; next, which
// is what is asked for, changed; or another operation. It is pure.
func ordered(upgrade *topsv1.NodeUpgrade, order *rollout.Order, own string) (next *topsv1.NodeOperation, needs verb) {
	if hasEnded(upgrade, order.Operation) && (!order.Abort || !holds(upgrade, order.Operation)) {
		return nil, nothing
	}
	if asked := upgrade.Spec.Operation; asked != nil && asked.ID == order.Operation {
		return amended(asked, order)
	}
	if shown := upgrade.Status.Operation; order.Abort && shown != nil && shown.ID == order.Operation {
		return nil, nothing // it was taken away, and is being wound up
	}
	if job, disturbed := jobOf(upgrade, own); job != nil && (!job.Ours || disturbed && !job.Held) {
		return nil, nothing
	}
	return nil, makeNew
}

// amended is an operation that is asked for already, as ordered.
func amended(asked *topsv1.NodeOperation, order *rollout.Order) (next *topsv1.NodeOperation, needs verb) {
	next = asked.DeepCopy()
	next.Granted, next.Abort = next.Granted || order.Grant && !order.Abort, next.Abort || order.Abort
	if next.Granted == asked.Granted && next.Abort == asked.Abort {
		return nil, nothing
	}
	return next, amend
}

func newNodeUpgrade(order *rollout.Order, op *topsv1.NodeOperation) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Name:            order.Node,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: order.Node, UID: order.UID}},
		},
		Spec: topsv1.NodeUpgradeSpec{Operation: op},
	}
}

// withdraw takes away the operations of a rollout that is over: what runs is wound
// up, and what is held is given back. It returns whether some have not ended.
func (r *Reconciler) withdraw(ctx context.Context, own string) (left bool, err error) {
	var list topsv1.NodeUpgradeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	var asked []*topsv1.NodeUpgrade
	for i := range list.Items {
		u := &list.Items[i]
		if op := u.Spec.Operation; op != nil && op.Rollout == own {
			asked = append(asked, u)
		}
		if shown := u.Status.Operation; shown != nil && shown.Rollout == own && (!shown.Phase.Final() || shown.Held) {
			left = true
		}
	}
	return left || len(asked) > 0, each(ctx, len(asked), func(i int) error {
		next := asked[i].DeepCopy()
		next.Spec.Operation = nil
		patch := client.MergeFromWithOptions(asked[i], client.MergeFromWithOptimisticLock{})
		err := r.Patch(ctx, next, patch, client.FieldOwner(topsv1.ManagedBy))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taking the operation of node %s away: %w", next.Name, err)
		}
		return nil
	})
}
