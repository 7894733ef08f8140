package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
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

// completeTasks completes a node, then a task of a verb: of the operation of the node or, for undo and the retry that ends one, of
// what the gate keeps back there.
func completeTasks(c connection, verb string) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		switch {
		case len(args) > 1:
			return nil, nil
		case verb == observed.VerbUndo && len(args) == 0:
			return nodeNames(ctx, cl)
		case verb == observed.VerbUndo:
			return tasksToUndo(ctx, cl)
		case len(args) == 0:
			return nodesWithTasks(ctx, cl, verb)
		}
		return tasksOfNode(ctx, cl, args[0], verb)
	})
}

// nodesWithTasks returns the nodes with an operation that runs or keeps them cordoned and, for retry, those that were rolled back.
func nodesWithTasks(ctx context.Context, cl *cluster, verb string) ([]string, error) {
	names, err := nodesAtWork(ctx, cl)
	if err != nil || verb != observed.VerbRetry {
		return names, err
	}
	for _, p := range pinsOf(ctx, cl) {
		names = append(names, p.Node)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// tasksOfNode returns the tasks of the operation of a node and, for retry, those that end what undo began.
func tasksOfNode(ctx context.Context, cl *cluster, node, verb string) (names []string, err error) {
	var upgrade topsv1.NodeUpgrade
	if err := cl.read(ctx, "", node, &upgrade); denial.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if upgrade.Status.Operation != nil {
		names = tasksOf(upgrade.Status.Operation)
	}
	if verb != observed.VerbRetry {
		return names, nil
	}
	for _, p := range pinsOf(ctx, cl) {
		if p.Node == node {
			names = append(names, strings.ReplaceAll(p.DaemonSet, "/", ".")+"_replace")
		}
	}
	return names, nil
}

// pinsOf returns which nodes are kept back with what, none if that cannot be read: the rest is completed all the same.
func pinsOf(ctx context.Context, cl *cluster) (pins []topsv1.NodePin) {
	var rollouts topsv1.DaemonRolloutList
	_ = cl.all(ctx, "", &rollouts)
	for i := range rollouts.Items {
		pins = append(pins, rollouts.Items[i].Status.Pinned...)
	}
	return pins
}

// tasksToUndo returns the tasks of all DaemonSets that are upgraded behind the gate, by their component or name where that is only
// one's, sorted. Whether a node has an earlier version to go back to, undo checks.
func tasksToUndo(ctx context.Context, cl *cluster) ([]string, error) {
	var sets appsv1.DaemonSetList
	var rollouts topsv1.DaemonRolloutList
	for _, l := range []client.ObjectList{&sets, &rollouts} {
		if err := cl.all(ctx, "", l); err != nil {
			return nil, err
		}
	}
	gated := map[string]bool{}
	for i := range rollouts.Items {
		status := &rollouts.Items[i].Status
		for _, t := range status.Targets {
			gated[t.DaemonSet] = meta.IsStatusConditionTrue(status.Conditions, topsv1.RolloutGated)
		}
	}
	full := map[string][]string{} // by the short name
	for i := range sets.Items {
		ds := &sets.Items[i]
		if _, is := gated[ds.Namespace+"/"+ds.Name]; is {
			short := cmp.Or(daemonset.Component(ds), ds.Name)
			full[short] = append(full[short], ds.Namespace+"/"+ds.Name)
		}
	}
	var names []string
	for short, of := range full {
		for _, name := range of {
			switch {
			case !gated[name]:
			case len(of) > 1:
				names = append(names, strings.ReplaceAll(name, "/", ".")+"_replace")
			default:
				names = append(names, short+"_replace")
			}
		}
	}
	slices.Sort(names)
	return names, nil
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
