package main

import (
	"context"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
)

func abortCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "abort NODE",
		Short: "Abort the operation on a node and uncordon the node",
		Long: `Abort the operation on a node: what is in progress is brought to a safe state, and
the node is uncordoned if it was cordoned for the operation. An abort cannot be
reverted. The node counts as failed until kubectl gcu resume or a new revision. An
operation that waits for its slot has not touched the node: the node gets another one,
and kubectl gcu hold keeps it out of upgrades.`,
		Example: `  # Uncordon a node that a failed operation keeps cordoned
  kubectl gcu abort node-1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodesAtWork(c.connection),
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, args []string) error {
			return abortOperation(ctx, c.terminal, cl, args[0])
		}),
	}
}

func abortOperation(ctx context.Context, out terminal, cl *cluster, node string) error {
	var already, begun bool
	var id string
	err := change(ctx, cl, "", node, func(upgrade *topsv1.NodeUpgrade) (bool, error) {
		wanted, op := upgrade.Spec.Operation, upgrade.Status.Operation
		if wanted == nil {
			return false, refused("there is no operation on node %s", node)
		}
		id, already, begun = wanted.ID, wanted.Abort, wanted.Granted
		if op != nil && op.ID == id && op.Phase.Final() && !op.Held {
			return false, refused("operation %s on node %s has ended: %s, %s", id, node, op.Phase, op.Reason)
		}
		wanted.Abort = true
		return !already, nil
	})
	switch {
	case denial.IsNotFound(err):
		return refused("node %s has no NodeUpgrade: there is no operation on it", node)
	case err != nil:
		return err
	case already:
		out.say("operation %s on node %s is already being aborted", id, node)
	case !begun:
		out.say("operation %s on node %s is aborted before it was started: the node gets another one; kubectl gcu hold %s keeps it out of upgrades", id, node, node)
	default:
		out.say("operation %s on node %s is aborted: the node is uncordoned if it was cordoned for it", id, node)
	}
	return nil
}
