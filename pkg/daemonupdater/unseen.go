package daemonupdater

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// confirmUnseen makes certain that the nodes of slots that are given back unseen are
// not in the group any more. It returns errMoved when the view is behind: the
// manager that gave such a slot may be about to delete a pod for it.
func (r *Reconciler) confirmUnseen(ctx context.Context, o *observation, slots []rollout.Slot, now time.Time) error {
	for i := range slots {
		if err := r.confirmGone(ctx, o, &slots[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) confirmGone(ctx context.Context, o *observation, slot *rollout.Slot, now time.Time) error {
	var live, cached corev1.Node
	key := client.ObjectKey{Name: slot.Node}
	err := r.Live.Get(ctx, key, &live)
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
		return fmt.Errorf("node %s: %w", slot.Node, errMoved)
	}
	if err := r.readNode(ctx, o, slot.Node, now); err != nil {
		return err
	}
	if o.view.fleet.Node(slot.Node) != nil {
		return fmt.Errorf("node %s: %w", slot.Node, errMoved)
	}
	return nil
}
