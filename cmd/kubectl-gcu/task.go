package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// taskVerb is an action on a task, and the resulting state.
type taskVerb struct {
	name, short, long, example string
	becomes                    topsv1.OperationTaskState
}

var taskVerbs = []taskVerb{
	{"retry", "Retry one task of an operation", `Retry one task of the operation on a node without repeating the tasks before it. An
operation that failed continues from there.

Where no operation is at work, retry of a replace task ends what undo began: the node gets the
newest revision like any other.`, "driver_verify", topsv1.OperationTaskDone},
	{"skip", "Skip one task of an operation", `Skip one task of the operation on a node: it counts as done. Cordon and uncordon
cannot be skipped: abort the operation instead.`, "node_soak", topsv1.OperationTaskSkipped},
	{"undo", "Roll one component of one node back to the previous revision", `Roll one component of one node back to the previous revision, and keep it there until
kubectl gcu task retry of the same task, or until another revision is rolled out. It needs the
manager's flag --gate. A driver or toolkit goes back by an operation of its own: while another
one is at work on the node, undo is refused. A node that failed goes back too.

TARGET is the component, the name of a DaemonSet, or NAMESPACE.NAME.`, "driver_replace", topsv1.OperationTaskUndone},
}

func taskCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use:   "task",
		Short: "Retry, skip or undo one task on a node",
		Long: `Retry or skip one task of the operation on a node without affecting the
others, or bring one component of a node back. kubectl gcu nodes -o wide shows
operations, kubectl describe nu NODE all tasks of one.`,
		Example: `  # The driver was repaired by hand: verify it again
  kubectl gcu task retry node-1 driver_verify`,
	}
	for _, v := range taskVerbs {
		command.AddCommand(taskVerbCommand(c, v))
	}
	return command
}

func taskVerbCommand(c *cli, v taskVerb) *cobra.Command {
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   v.name + " NODE TASK",
		Short: v.short,
		Long:  v.long + "\n\nTASK is NODE_TARGET_ACTION, or TARGET_ACTION for short.",
		Example: "  # With --wait, until the task has ended\n  kubectl gcu task " + v.name + " node-1 " + v.example +
			" --wait --timeout 10m",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTasks(c.connection, v.name),
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, args []string) error {
			node, task := args[0], fullTask(args[0], args[1])
			if asked, err := isPinRequest(ctx, cl, node, v.name, task); err != nil {
				return err
			} else if asked {
				return requestPin(ctx, c.terminal, cl, node, v.name, task, wait, timeout)
			}
			o, err := overrideTask(ctx, cl, node, v.name, task)
			if err != nil {
				return err
			}
			c.say("node %s: %s of task %s is requested", node, v.name, task)
			if !wait {
				return nil
			}
			if err := awaitTask(ctx, c.terminal, cl, node, task, o, v.becomes, timeout); err != nil {
				return err
			}
			c.say("node %s: task %s is %s", node, task, v.becomes)
			return nil
		}),
	}
	command.Flags().BoolVar(&wait, "wait", false, "wait until the task has ended")
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; 0: no limit")
	return command
}

// fullTask adds the node to the short form of a task.
func fullTask(node, task string) string {
	if strings.Count(task, "_") == 1 {
		return node + "_" + task
	}
	return task
}

// override is an annotation that was written, and its operation.
type override struct{ operation, value string }

// overrideTask writes the annotation that requests the action on a task.
func overrideTask(ctx context.Context, cl *cluster, node, verb, task string) (override, error) {
	machine, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		return override{}, err
	}
	var o override
	err = change(ctx, cl, "", node, func(upgrade *topsv1.NodeUpgrade) (bool, error) {
		if err := atWork(upgrade); err != nil {
			return false, err
		}
		op := upgrade.Status.Operation
		if err := overrideIsRead(upgrade); err != nil {
			return false, err
		}
		// The time makes a repeated request a new one.
		o = override{op.ID, verb + ":" + task + ":" + time.Now().UTC().Format(time.RFC3339Nano)}
		if err := machine.CheckOverride(upgrade.Spec.Operation, node, o.value); err != nil {
			return false, refused("node %s: %w; its tasks are %s", node, err, message.Names(tasksOf(op)))
		}
		metav1.SetMetaDataAnnotation(&upgrade.ObjectMeta, topsv1.AnnotationTaskOverride, o.value)
		return true, nil
	})
	if denial.IsNotFound(err) {
		err = refused("node %s has no NodeUpgrade: there is no operation on it", node)
	}
	return o, err
}

// awaitTask waits until the operator has read an override and the task is in a state.
func awaitTask(ctx context.Context, out terminal, cl *cluster, node, task string, o override, state topsv1.OperationTaskState, timeout time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return await(ctx, out, timeout, cl.changes(ctx, node, &topsv1.NodeUpgradeList{}), func(ctx context.Context) (bool, string, error) {
		var upgrade topsv1.NodeUpgrade
		if err := cl.read(ctx, "", node, &upgrade); err != nil {
			return false, "", err
		}
		return taskIs(&upgrade, task, o, state)
	})
}

// taskIs reports whether a task is in a state, and if not, why; an error means that it will
// not be.
func taskIs(upgrade *topsv1.NodeUpgrade, task string, o override, state topsv1.OperationTaskState) (bool, string, error) {
	op := upgrade.Status.Operation
	if op == nil || op.ID != o.operation {
		return false, "", notYet("node %s: operation %s was followed by another one", upgrade.Name, o.operation)
	}
	if op.Override != o.value {
		if upgrade.Annotations[topsv1.AnnotationTaskOverride] != o.value {
			return false, "", notYet("node %s: another override was set before the operator read this one", upgrade.Name)
		}
		return false, "the operator has not read it yet", nil
	}
	for _, t := range op.Tasks {
		switch {
		case t.Name != task:
		case t.State == state:
			return true, "", nil
		case t.State == topsv1.OperationTaskFailed:
			return false, "", notYet("node %s: task %s failed: %s: %s", upgrade.Name, task, t.Reason, t.Message)
		case op.Phase.Final():
			return false, "", notYet("node %s: the operation ended: %s, %s: %s", upgrade.Name, op.Phase, op.Reason, op.Message)
		default:
			return false, "task " + task + " is " + string(t.State) + ": " + t.Message, nil
		}
	}
	return false, "", notYet("node %s: the operation has no task %s any more", upgrade.Name, task)
}
