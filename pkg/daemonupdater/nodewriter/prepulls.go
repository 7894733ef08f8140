package nodewriter

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// errNoRoom means that the NodeUpgrade of a node has no room for another pull.
var errNoRoom = errors.New("no room for another pull")

// Prepull writes the prepulls of a decision. A node whose prepull is denied continues without it.
func (w Writer) Prepull(ctx context.Context, p *pass.Pass) error {
	return access.InParallel(ctx, len(p.Decision.Prepulls), func(i int) error {
		wanted := &p.Decision.Prepulls[i]
		node := p.Fleet.Node(wanted.Node)
		if node == nil {
			return podreplace.ErrChanged
		}
		err := w.prepullOne(ctx, p, node, wanted.Members)
		if errors.Is(err, errNoRoom) || podreplace.IsDeniedOrBroken(err) && !access.IsStale(err) {
			w.Pulls.Postpone(ctx, p.Group, node.Name, node.UID, err, p.In.Now, "Prepull denied")
			return nil
		}
		if err != nil {
			return fmt.Errorf("writing the prepulls of node %s: %w", node.Name, err)
		}
		return nil
	})
}

func (w Writer) prepullOne(ctx context.Context, p *pass.Pass, node *rollout.Node, members []int) error {
	var live topsv1.NodeUpgrade
	err := w.Live.Get(ctx, client.ObjectKey{Name: node.Name}, &live)
	if apierrors.IsNotFound(err) {
		return nil // an event follows: the node agent is no longer known
	}
	if err != nil {
		return err
	}
	next, changed, err := observed.NextPrepulls(p.State, &live, members, p.In.Now)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	if !changed {
		return nil
	}
	log.FromContext(ctx).Info("Writing prepulls", "Node", klog.KRef("", node.Name), "prepulls", len(next))
	before := live.DeepCopy()
	live.Spec.Prepulls = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Patch(ctx, &live, patch, client.FieldOwner(topsv1.ManagedBy), access.StrictFields); err != nil {
		return err
	}
	w.Pulls.Allowed(p.Group, node.UID)
	return nil
}
