package planfile

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GlobalHost is the host of the tasks of the cluster (contract statement 91).
const GlobalHost = "upg-server"

// Names of the tasks of the cluster that are done before the nodes and after them, as those of batches.
const (
	BeforeNodes = "before"
	AfterNodes  = "after"
)

// maxGlobal is how many tasks of the cluster a plan has at most before the nodes, and after them.
const maxGlobal = 20

var (
	globalTask = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?_[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	objectName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
)

// GlobalName returns the name of a task of the cluster, as host_target_action.
func GlobalName(t *topsv1.GlobalTask) string { return GlobalHost + "_" + t.Task }

// global checks the tasks of the cluster.
func (r *reader) global() {
	names := map[string]bool{}
	for t := range globalTasks(&r.Object.Spec) {
		switch {
		case len(t.Task) > 40 || !globalTask.MatchString(t.Task):
			r.fault("global task %q is not of the form target_action, such as database_backup, with at most 40 small letters, digits and hyphens", t.Task)
		case names[t.Task]:
			r.fault("global task %s appears twice: give the second one another target or action", t.Task)
		case len(t.CronJob) > 52 || !objectName.MatchString(t.CronJob):
			r.fault("global task %s: cronJob %q is not the name of a CronJob", t.Task, t.CronJob)
		}
		names[t.Task] = true
	}
	if most := max(len(r.Object.Spec.Before), len(r.Object.Spec.After)); most > maxGlobal {
		r.fault("it has %d global tasks in one list: at most %d are accepted", most, maxGlobal)
	}
	if _, is := r.nodes[GlobalHost]; is && len(names) > 0 {
		r.fault("node %s has the name of the host of global tasks: plan it without any", GlobalHost)
	}
}

// globalTasks returns the tasks of the cluster, in their order.
func globalTasks(spec *topsv1.UpgradePlanSpec) iter.Seq[*topsv1.GlobalTask] {
	return func(yield func(*topsv1.GlobalTask) bool) {
		for _, list := range [][]topsv1.GlobalTask{spec.Before, spec.After} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// CronJobs returns the names of the CronJobs of the tasks of the cluster, sorted.
func (p *Plan) CronJobs() []string {
	var names []string
	for t := range globalTasks(&p.Object.Spec) {
		names = append(names, t.CronJob)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// GlobalText describes the tasks of the cluster, a line for each; "" without any.
func (p *Plan) GlobalText() string {
	var b strings.Builder
	for t := range globalTasks(&p.Object.Spec) {
		when := AfterNodes
		if slices.Contains(p.Object.Spec.Before, *t) {
			when = BeforeNodes
		}
		fmt.Fprintf(&b, "%s the nodes: %s, from CronJob %s\n", when, GlobalName(t), t.CronJob)
	}
	return b.String()
}

// globalResult adds the results of tasks of the cluster to those of nodes, if there are any: as the result of a
// host, which is fail if one failed, done if all are, and else undo.
func (p *Plan) globalResult(results []NodeResult, when string, tasks []topsv1.GlobalTask) []NodeResult {
	if len(tasks) == 0 {
		return results
	}
	of := map[string]Outcome{}
	for i := range p.Object.Status.Tasks {
		of[p.Object.Status.Tasks[i].Task] = Outcome(p.Object.Status.Tasks[i].Result)
	}
	r := NodeResult{Node: GlobalHost, Batch: when, Result: Undo}
	for i := range tasks {
		switch name := GlobalName(&tasks[i]); of[name] {
		case Done:
			r.Tasks.Done = append(r.Tasks.Done, name)
		case Fail:
			r.Tasks.Fail, r.Result = append(r.Tasks.Fail, name), Fail
		default:
			r.Tasks.Undo = append(r.Tasks.Undo, name)
		}
	}
	if len(r.Tasks.Done) == len(tasks) {
		r.Result = Done
	}
	return append(results, r)
}

// failedTasks returns the tasks of the cluster that failed, as those of nodes.
func failedTasks(status *topsv1.UpgradePlanStatus) (failed []topsv1.FailedNode) {
	for i := range status.Tasks {
		if n := &status.Tasks[i]; n.Result == string(Fail) {
			failed = append(failed, topsv1.FailedNode{Node: GlobalHost, Task: n.Task, Message: n.Message})
		}
	}
	return failed
}
