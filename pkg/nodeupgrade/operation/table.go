package operation

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// row defines the tasks with one action on one target.
type row struct {
	// action and target of the task; an empty target matches any.
	action, target string
	// component: the operation must have the target as one of its own.
	component bool
	kind
	taskProperties
	// tainted: a driver-upgrade taint stays until this is done, so that the users of the device return only
	// to a verified driver and the right runtime.
	tainted bool
	// rechecked: at the end a recorded done is not enough; the facts must show it.
	rechecked bool
	// kept: it cannot be skipped.
	kept bool
	// last: the release of the node does it, and finish records it.
	last bool
}

// table has every task that an operation can have. A row for one target comes before the row
// of the same action for any target.
var table = []row{
	{action: upgradeplan.ActionPrecheck, target: upgradeplan.TargetNode, kind: precheck{}, taskProperties: taskProperties{prepares: true}},
	{action: upgradeplan.ActionPrepull, component: true, kind: prepull{}, taskProperties: taskProperties{prepares: true}},
	{action: upgradeplan.ActionCordon, target: upgradeplan.TargetNode, kind: cordonNode{}, kept: true},
	{action: upgradeplan.ActionEvict, target: upgradeplan.TargetNode, kind: evict{}},
	{action: upgradeplan.ActionReplace, target: upgradeplan.TargetDriver, component: true, kind: replaceDriver{}, taskProperties: taskProperties{disturbs: true}, tainted: true, rechecked: true},
	{action: upgradeplan.ActionVerify, target: upgradeplan.TargetDriver, kind: verify{lacks: driverLacks}, tainted: true, rechecked: true},
	{action: upgradeplan.ActionReplace, target: upgradeplan.TargetToolkit, component: true, kind: replace{}, tainted: true, rechecked: true},
	{action: upgradeplan.ActionRestartRuntime, target: upgradeplan.TargetNode, kind: restart{}, taskProperties: taskProperties{disturbs: true}, tainted: true},
	{action: upgradeplan.ActionVerify, target: upgradeplan.TargetRuntime, kind: verify{lacks: verifiedRuntimeLacks}, tainted: true, rechecked: true},
	{action: upgradeplan.ActionReplace, component: true, kind: replace{}, rechecked: true},
	{action: upgradeplan.ActionVerify, target: upgradeplan.TargetAllocatable, kind: verifyAllocatable{verify{lacks: allocatableLacks}}, rechecked: true},
	{action: upgradeplan.ActionSoak, target: upgradeplan.TargetNode, kind: soak{}},
	{action: upgradeplan.ActionUncordon, target: upgradeplan.TargetNode, kind: uncordonNode{}, kept: true, last: true},
}

// rowOf returns the row of a task, nil when there is none.
func rowOf(t upgradeplan.Task) *row {
	i := slices.IndexFunc(table, func(r row) bool { return r.action == t.Action && (r.target == t.Target || r.target == "") })
	if i < 0 {
		return nil
	}
	return &table[i]
}

// jobOf parses the job of an operation. The error says what is invalid.
func jobOf(op *topsv1.NodeOperation, node string) (job, error) {
	j := job{taskProperties: map[upgradeplan.Task]taskProperties{}}
	for _, names := range op.Job {
		var stage upgradeplan.Stage
		for _, name := range names {
			t, err := upgradeplan.ParseTask(string(name))
			if err != nil {
				return job{}, err
			}
			stage = append(stage, t)
		}
		j.Job = append(j.Job, stage)
	}
	if err := j.Validate(); err != nil {
		return job{}, err
	}
	if j.Host() != node {
		return job{}, fmt.Errorf("the job is for host %s, not for this node", j.Host())
	}
	for t := range j.All() {
		if err := known(op, t); err != nil {
			return job{}, err
		}
		j.taskProperties[t] = rowOf(t).taskProperties
	}
	return j, nil
}

// known returns an error for a task without a row, or whose component is not a target of the
// operation.
func known(op *topsv1.NodeOperation, t upgradeplan.Task) error {
	i := slices.IndexFunc(table, func(r row) bool { return r.action == t.Action })
	if i < 0 {
		return fmt.Errorf("task %s: unknown action %s", t, t.Action)
	}
	switch row := rowOf(t); {
	case row == nil && table[i].target == upgradeplan.TargetNode:
		return fmt.Errorf("task %s: %s is done to the target node", t, t.Action)
	case row == nil:
		return fmt.Errorf("task %s: unknown target of verify %s", t, t.Target)
	case row.component && !slices.ContainsFunc(op.Targets, func(o topsv1.OperationTarget) bool { return o.Component == t.Target }):
		return fmt.Errorf("task %s: the operation has no target %s", t, t.Target)
	}
	return nil
}
