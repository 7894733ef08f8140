package drain

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch

// Cordoner cordons nodes for operations and releases them.
type Cordoner struct {
	// Client lists nodes, cached or not, and patches them.
	Client client.Client
	// Live reads nodes past the cache, which lacks the managedFields that cordon.FactsOf
	// needs.
	Live client.Reader
}

// Uncordon carries out cordon.DecideUncordon on a node, in at most one write. A conflict
// error means that the node changed meanwhile: retry. A node that does not exist is not
// cordoned.
func (c Cordoner) Uncordon(ctx context.Context, node, operation string) (cordon.NodeChange, error) {
	facts, err := c.read(ctx, node)
	if apierrors.IsNotFound(err) {
		return cordon.DecideUncordon(cordon.NodeFacts{Name: node}, operation), nil
	}
	if err != nil {
		return cordon.NodeChange{}, err
	}
	return c.carryOut(ctx, facts, operation, cordon.DecideUncordon(facts, operation))
}

// CarryOut writes a decided change to the node at the resourceVersion of the decision, in at
// most one write. A conflict error means that the node has changed since: decide again.
func (c Cordoner) CarryOut(ctx context.Context, node, resourceVersion, operation string, change cordon.NodeChange) error {
	_, err := c.carryOut(ctx, cordon.NodeFacts{Name: node, ResourceVersion: resourceVersion}, operation, change)
	return err
}

// Sweep releases the nodes that were cordoned for operations that are over: a manager may
// have died between two writes (invariant S3). live returns the ids of all operations that
// are not over, read past the cache; it is called after the nodes are listed, see Orphans.
// Sweep returns the released nodes; a failure on one does not stop the others.
func (c Cordoner) Sweep(ctx context.Context, live func(context.Context) (sets.Set[string], error)) ([]cordon.Orphan, error) {
	var list corev1.NodeList
	if err := c.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var marked []cordon.NodeFacts
	for i := range list.Items {
		if facts := cordon.FactsOf(&list.Items[i]); facts.Mark != "" {
			marked = append(marked, facts)
		}
	}
	if len(marked) == 0 {
		return nil, nil
	}
	operations, err := live(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the live operations: %w", err)
	}
	var released []cordon.Orphan
	var failed []error
	for _, o := range cordon.Orphans(marked, operations) {
		change, err := c.Uncordon(ctx, o.Node, o.Operation)
		switch {
		case err != nil:
			failed = append(failed, err)
		case change.Needed():
			released = append(released, o)
		}
	}
	return released, errors.Join(failed...)
}

func (c Cordoner) read(ctx context.Context, name string) (cordon.NodeFacts, error) {
	var node corev1.Node
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return cordon.NodeFacts{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	return cordon.FactsOf(&node), nil
}

func (c Cordoner) carryOut(ctx context.Context, facts cordon.NodeFacts, operation string, change cordon.NodeChange) (cordon.NodeChange, error) {
	if !change.Needed() {
		return change, nil
	}
	data, err := change.Patch(facts.ResourceVersion)
	if err != nil {
		return cordon.NodeChange{}, err
	}
	log.FromContext(ctx).Info("Changing the cordon of a node", "Node", facts.Name, "operation", operation, "reason", change.Reason)
	node := &corev1.Node{}
	node.Name = facts.Name
	if err := c.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, data), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return cordon.NodeChange{}, fmt.Errorf("patching node %s for %s: %w", facts.Name, change.Reason, err)
	}
	return change, nil
}
