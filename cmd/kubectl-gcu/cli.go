package main

import (
	"context"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// cli is shared by all commands.
type cli struct {
	terminal
	connection
}

// onCluster makes a RunE of an action that needs the cluster.
func (c *cli) onCluster(do func(ctx context.Context, cl *cluster, args []string) error) func(*cobra.Command, []string) error {
	return runE(func(ctx context.Context, args []string) error {
		cl, err := c.connect()
		if err != nil {
			return err
		}
		return do(ctx, cl, args)
	})
}

// onResource makes a RunE of an action on the named gr, or the only one.
func (c *cli) onResource(do func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error) func(*cobra.Command, []string) error {
	return runE(func(ctx context.Context, args []string) error {
		cl, gr, err := c.resource(ctx, args)
		if err != nil {
			return err
		}
		return do(ctx, cl, gr)
	})
}
