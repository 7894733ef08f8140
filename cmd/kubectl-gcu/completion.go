package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// completeTime is the timeout of a completion.
const completeTime = 3 * time.Second

// complete completes a flag with fixed values.
func complete(command *cobra.Command, flag string, values []string) {
	// It fails only if the flag does not exist, which a test of every command would show.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completion is the type of cobra for completions.
type completion = func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completes makes a completion of a function that reads names. It hides errors: a shell
// cannot show them.
func completes(c connection, names func(ctx context.Context, cl *cluster, args []string) ([]string, error)) completion {
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

// completesFirst completes the first argument only.
func completesFirst(c connection, names func(ctx context.Context, cl *cluster) ([]string, error)) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return names(ctx, cl)
	})
}

// completeLists completes the last name of a comma-separated list.
func completeLists(c connection, names func(context.Context, *cluster) ([]string, error)) completion {
	all := completes(c, func(ctx context.Context, cl *cluster, _ []string) ([]string, error) { return names(ctx, cl) })
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		before := toComplete[:strings.LastIndex(toComplete, ",")+1]
		found, directive := all(command, args, toComplete)
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// completeResources completes a gr.
func completeResources(c connection) completion {
	return completesFirst(c, func(ctx context.Context, cl *cluster) ([]string, error) {
		grs, err := cl.resources(ctx, nil)
		return namesOf(grs), err
	})
}

// completeRevisions completes a revision of the named gr, or of the only one.
func completeRevisions(c connection) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		gr, err := cl.resource(ctx, args)
		if err != nil {
			return nil, err
		}
		list, err := cl.revisions(ctx, gr.Name)
		return namesOf(list), err
	})
}

// completeNodes completes a node, completeNodesAtWork one with an operation.
func completeNodes(c connection) completion       { return completesFirst(c, nodeNames) }
func completeNodesAtWork(c connection) completion { return completesFirst(c, nodesAtWork) }

// completeWaves completes a gr, then one of its waves.
func completeWaves(c connection) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		if len(args) == 0 {
			grs, err := cl.resources(ctx, nil)
			return namesOf(grs), err
		}
		dro, err := cl.rollout(ctx, args[0])
		if err != nil || dro == nil || len(args) > 1 {
			return nil, err
		}
		var names []string
		for _, w := range dro.Status.Waves {
			names = append(names, w.Name)
		}
		return names, nil
	})
}

// completeTasks completes a node with an operation, then one of its tasks.
func completeTasks(c connection) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		if len(args) == 0 {
			return nodesAtWork(ctx, cl)
		}
		if len(args) > 1 {
			return nil, nil
		}
		var upgrade topsv1.NodeUpgrade
		if err := cl.read(ctx, "", args[0], &upgrade); err != nil || upgrade.Status.Operation == nil {
			return nil, err
		}
		return tasksOf(upgrade.Status.Operation), nil
	})
}

// tasksOf returns the names of the tasks of an operation.
func tasksOf(op *topsv1.OperationStatus) []string {
	names := make([]string, 0, len(op.Tasks))
	for i := range op.Tasks {
		names = append(names, op.Tasks[i].Name)
	}
	return names
}

// nodesAtWork returns the nodes with an operation that runs or keeps them cordoned.
func nodesAtWork(ctx context.Context, cl *cluster) ([]string, error) {
	var l topsv1.NodeUpgradeList
	if err := cl.all(ctx, "", &l); err != nil {
		return nil, err
	}
	return namesOf(slices.DeleteFunc(l.Items, func(u topsv1.NodeUpgrade) bool {
		op := u.Status.Operation
		return op == nil || op.Phase.Final() && !op.Held
	})), nil
}

func nodeNames(ctx context.Context, cl *cluster) ([]string, error) {
	var list corev1.NodeList
	err := cl.all(ctx, "", &list)
	return namesOf(list.Items), err
}
