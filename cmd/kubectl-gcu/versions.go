package main

import (
	"context"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

func versionsCommand(c *cli) *cobra.Command {
	var o output
	var nodes bool
	command := &cobra.Command{
		Use:   "versions [GR] [--nodes]",
		Short: "Count the versions of components and kernels on the nodes of a gr",
		Long: `Count how many nodes run which version of each component of a gr, and which kernel, by
pool: the label that the UpgradePolicy limits pools by. WANTED is the version that new pods
get, where it is another one. With --nodes it lists every node instead. GR may be omitted
when there is only one.`,
		Example: `  # How far is the fleet, by pool?
  kubectl gcu versions

  # Every node
  kubectl gcu versions my-gr --nodes

  # The nodes with driver 1.4.2
  kubectl gcu versions --nodes -o json |
    jq -r '.nodes[] | select(.components.driver == "1.4.2") | .name'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			fleet, err := readFleet(ctx, cl, gr)
			if err != nil {
				return err
			}
			pools, err := poolLabel(ctx, cl, gr)
			if err != nil {
				return err
			}
			v := display.VersionsOf(fleet, pools)
			if !nodes {
				v.Nodes = nil
			}
			return c.print(o, v, v.Text)
		}),
	}
	o.bind(command)
	command.Flags().BoolVar(&nodes, "nodes", false, "list every node")
	return command
}

// poolLabel returns the label by which the policy of a gr limits pools, "" if it does not.
func poolLabel(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (string, error) {
	policy, err := readPolicy(ctx, cl, gr)
	if policy == nil || policy.Spec.Pools == nil {
		return "", err
	}
	return policy.Spec.Pools.TopologyKey, nil
}
