package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// SweepInterval is how often nodes are checked for leftover cordons and taints.
const SweepInterval = 5 * time.Minute

// sweeper sweeps at start and every SweepInterval, on the leader only.
type sweeper struct {
	cache    client.Reader
	live     client.Reader
	cordoner drain.Cordoner
	taints   taintWriter
}

// Start sweeps until ctx is done.
func (s sweeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Sweeping nodes failed, trying again later")
		}
	}, SweepInterval)
	return nil
}

// NeedLeaderElection returns true: only the leader sweeps.
func (s sweeper) NeedLeaderElection() bool { return true }

// sweep releases the nodes with the cordon or the taint of an operation that is over: a
// process may have died between two writes, or the NodeUpgrade may have been deleted
// (invariants S3, L4). A failure on one node does not stop the others.
func (s sweeper) sweep(ctx context.Context) error {
	_, err := s.cordoner.Sweep(ctx, s.liveOperations)
	return errors.Join(err, s.sweepTaints(ctx))
}

// liveOperations returns the ids of all operations that are not over, and those that their cordons name, read live; also of those that
// are only over because an older CRD dropped that they keep their nodes.
func (s sweeper) liveOperations(ctx context.Context) (sets.Set[string], error) {
	var list topsv1.NodeUpgradeList
	if err := s.live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	ids := sets.New[string]()
	for i := range list.Items {
		if op := list.Items[i].Status.Operation; !operation.Over(op) || operation.Keeps(op) {
			ids.Insert(op.ID, operation.CordonMark(op))
		}
	}
	return ids, nil
}

// sweepTaints opens the devices closed by operations that are over. As with cordons, the
// operations are read after the nodes.
func (s sweeper) sweepTaints(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	closed := map[string]string{}
	for i := range nodes.Items {
		if id := operation.TaintedFor(&nodes.Items[i]); id != "" {
			closed[nodes.Items[i].Name] = id
		}
	}
	if len(closed) == 0 {
		return nil
	}
	operations, err := s.liveOperations(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for name, id := range closed {
		if !operations.Has(id) {
			failed = append(failed, s.open(ctx, name, id))
		}
	}
	return errors.Join(failed...)
}

// open removes the taint of an operation from a node, if it is still there.
func (s sweeper) open(ctx context.Context, name, id string) error {
	node := &corev1.Node{}
	err := s.live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) || err == nil && operation.TaintedFor(node) != id {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	return s.taints.set(ctx, node, id, operation.WithoutDriverTaint(node, id))
}

// marked reports whether a node in the cache has the cordon or the taint of an operation.
func (s sweeper) marked(ctx context.Context, name string) (bool, error) {
	var node corev1.Node
	err := s.cache.Get(ctx, client.ObjectKey{Name: name}, &node, client.UnsafeDisableDeepCopy)
	if denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting node %s: %w", name, err)
	}
	return err == nil && (node.Annotations[topsv1.AnnotationCordonedBy] != "" || operation.TaintedFor(&node) != ""), nil
}
