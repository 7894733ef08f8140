package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// completeTime is how long a shell waits for the API server.
const completeTime = 3 * time.Second

// complete offers the values of a flag.
func complete(command *cobra.Command, flag string, values []string) {
	// The error is for a flag that does not exist: a test calls every command.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completion is what cobra asks for arguments.
type completion = func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completes makes a completion of what looks names up; it offers nothing when that
// fails, for a shell has no place for an error.
func (c *cli) completes(names func(ctx context.Context, cl *cluster, args []string) ([]string, error)) completion {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completeTime)
		defer cancel()
		cl, err := c.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(ctx, cl, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeResources offers grs for the first argument.
func (c *cli) completeResources(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.completes(func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		grs, err := cl.resources(ctx, nil)
		return namesOf(grs), err
	})(command, args, toComplete)
}

// completeRevisions offers the kept specs of the gr that is named, or of the only one.
func (c *cli) completeRevisions(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.completes(func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		gr, err := cl.resource(ctx, args)
		if err != nil {
			return nil, err
		}
		list, err := cl.revisions(ctx, gr.Name)
		var names []string
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names, err
	})(command, args, toComplete)
}

// completeWaves offers grs, then the waves of one.
func (c *cli) completeWaves(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return c.completeResources(command, args, toComplete)
	}
	return c.completes(func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		dro, err := cl.rollout(ctx, args[0])
		if err != nil || dro == nil || len(args) > 1 {
			return nil, err
		}
		var names []string
		for _, w := range dro.Status.Waves {
			names = append(names, w.Name)
		}
		return names, nil
	})(command, args, toComplete)
}

// completeTasks offers nodes that have an operation, then the tasks of one.
func (c *cli) completeTasks(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.completes(func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		var names []string
		if len(args) == 0 {
			return cl.nodesAtWork(ctx)
		}
		if len(args) > 1 {
			return nil, nil
		}
		var upgrade topsv1.NodeUpgrade
		if err := cl.read(ctx, "", args[0], &upgrade); err != nil || upgrade.Status.Operation == nil {
			return nil, err
		}
		for _, t := range upgrade.Status.Operation.Tasks {
			names = append(names, t.Name)
		}
		return names, nil
	})(command, args, toComplete)
}

// completeNodesAtWork offers nodes that have an operation, for the first argument.
func (c *cli) completeNodesAtWork(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.completes(func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return cl.nodesAtWork(ctx)
	})(command, args, toComplete)
}

// nodesAtWork are the nodes with an operation that has not ended or that holds them.
func (c *cluster) nodesAtWork(ctx context.Context) ([]string, error) {
	var l topsv1.NodeUpgradeList
	if err := c.all(ctx, "", &l); err != nil {
		return nil, err
	}
	var names []string
	for i := range l.Items {
		if op := l.Items[i].Status.Operation; op != nil && (!op.Phase.Final() || op.Held) {
			names = append(names, l.Items[i].Name)
		}
	}
	return names, nil
}
