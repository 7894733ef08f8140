package daemonupdater

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
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
)

// prepullWriter writes spec.prepulls of NodeUpgrades.
type prepullWriter struct {
	access.Cluster
	// refused are the nodes whose pulls could not be written; changed receives them.
	refused *deletion.Attempts
	changed *watch.ChangedNodes
}

// errNoRoom means that the NodeUpgrade of a node has no room for another pull.
var errNoRoom = errors.New("no room for another pull")

// apply has images pulled on the nodes of a decision. A node on which that cannot be asked for goes on without.
func (w prepullWriter) apply(ctx context.Context, p *pass) error {
	return access.InParallel(ctx, len(p.decision.Prepulls), func(i int) error {
		order := &p.decision.Prepulls[i]
		node := p.fleet.Node(order.Node)
		err := w.applyOne(ctx, p, node, order.Members)
		if errors.Is(err, errNoRoom) || isRefused(err) && !access.IsStale(err) {
			log.FromContext(ctx).Info("Prepull refused", "Node", node.Name, "cause", err.Error())
			w.refused.Denied(p.Group, node.Name, node.UID, err, p.in.Now)
			w.changed.Add(p.Group, node.Name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("writing the prepulls of node %s: %w", node.Name, err)
		}
		return nil
	})
}

func (w prepullWriter) applyOne(ctx context.Context, p *pass, node *rollout.Node, members []int) error {
	var live topsv1.NodeUpgrade
	err := w.Live.Get(ctx, client.ObjectKey{Name: node.Name}, &live)
	if apierrors.IsNotFound(err) {
		return nil // an event follows: its agent is not known any more
	}
	if err != nil {
		return err
	}
	next, changed, err := observed.NextPrepulls(p.State, &live, members, p.in.Now)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	if !changed {
		return nil
	}
	log.FromContext(ctx).Info("Asking for a prepull", "Node", klog.KRef("", node.Name), "prepulls", len(next))
	before := live.DeepCopy()
	live.Spec.Prepulls = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Patch(ctx, &live, patch, client.FieldOwner(topsv1.ManagedBy), access.Whole); err != nil {
		return err
	}
	w.refused.Allowed(node.UID)
	return nil
}
