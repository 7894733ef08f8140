package planfile

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Outcome is the result of a node (contract statement 93).
type Outcome string

// Outcomes of a node. Unknown: its result did not fit into the object.
const (
	Done    Outcome = "done"
	Fail    Outcome = "fail"
	NotDone Outcome = "undo"
	Unknown Outcome = "unknown"
)

// NodeResult is the result of a node, and of each of its tasks.
type NodeResult struct {
	Node   string                 `json:"node"`
	Batch  string                 `json:"batch"`
	Result Outcome                `json:"result"`
	Tasks  topsv1.OperationResult `json:"tasks"`
}

// Results returns the stored results of the nodes, in the order of the plan, with the results of the global
// tasks before and after them. It returns nil if there is no result for the current generation of the plan.
func (p *Plan) Results() []NodeResult {
	outcomes := p.Outcomes()
	if outcomes == nil {
		return nil
	}
	failed := p.failures()
	results := p.globalResult(nil, BeforeNodes, p.Object.Spec.Before)
	for name := range p.All() {
		at := p.nodes[name]
		results = append(results, NodeResult{Node: name, Batch: p.Object.Spec.Batches[at.batch].Name, Result: outcomes[name],
			Tasks: at.job.result(name, outcomes[name], failed[name])})
	}
	return p.globalResult(results, AfterNodes, p.Object.Spec.After)
}

// Outcomes returns the stored results of the nodes by name; nil if there is no result for the current generation.
func (p *Plan) Outcomes() map[string]Outcome {
	status := &p.Object.Status
	if status.Time == nil || status.ObservedGeneration != p.Object.Generation {
		return nil
	}
	failed, notDone := p.failures(), map[string]bool{}
	for _, name := range status.Undone {
		notDone[name] = true
	}
	known := p.Nodes() // up to this position a node that no list names is done
	if len(failed) < int(status.Fail) {
		known = last(p, failed)
	}
	if len(notDone) < int(status.Undo) {
		known = min(known, last(p, notDone))
	}
	outcomes := make(map[string]Outcome, p.Nodes())
	for name := range p.All() {
		switch {
		case failed[name] != nil:
			outcomes[name] = Fail
		case notDone[name]:
			outcomes[name] = NotDone
		case len(outcomes) > known:
			outcomes[name] = Unknown
		default:
			outcomes[name] = Done
		}
	}
	return outcomes
}

// failures returns the stored failures of nodes by name.
func (p *Plan) failures() map[string]*topsv1.FailedNode {
	failed := map[string]*topsv1.FailedNode{}
	for i := range p.Object.Status.Failed {
		f := &p.Object.Status.Failed[i]
		failed[f.Node] = f
	}
	return failed
}

// last returns the position in the plan of the last node that a shortened list names, -1 for none: the list is in
// the order of the plan, so the nodes that it lacks come after that one.
func last[T any](p *Plan, of map[string]T) int {
	last, place := -1, 0
	for name := range p.All() {
		if _, is := of[name]; is {
			last = place
		}
		place++
	}
	return last
}

// result divides the tasks of a node into done, failed and not done. failure is nil for none; the tasks of the stages before
// the failed task are done. The pods of a light job are replaced in an order of their own, so its failure lists the done ones.
func (j *job) result(node string, outcome Outcome, failure *topsv1.FailedNode) (r topsv1.OperationResult) {
	if failure == nil {
		failure = &topsv1.FailedNode{}
	}
	stages, light := j.on(node), outcome == Fail && j.isLight()
	isFailed := func(t upgradeplan.Task) bool { return t.String() == failure.Task }
	past := outcome == Done || outcome == Fail && slices.ContainsFunc(slices.Collect(stages.All()), isFailed)
	for _, stage := range stages {
		past = past && !slices.ContainsFunc(stage, isFailed)
		for _, t := range stage {
			switch name := t.String(); {
			case isFailed(t):
				r.Fail = append(r.Fail, name)
			case past && !light, light && slices.Contains(failure.Done, t.Target):
				r.Done = append(r.Done, name)
			default:
				r.Undo = append(r.Undo, name)
			}
		}
	}
	return r
}

// isLight reports whether the job only replaces pods.
func (j *job) isLight() bool {
	return !slices.ContainsFunc(j.stages, func(s []pair) bool {
		return slices.ContainsFunc(s, func(t pair) bool { return t.action != upgradeplan.ActionReplace })
	})
}

// globalResult adds the results of global tasks, if there are any, to those of nodes: as the result of one
// host, which is fail if a task failed, done if all are done, and otherwise undo.
func (p *Plan) globalResult(results []NodeResult, when string, tasks []topsv1.GlobalTask) []NodeResult {
	if len(tasks) == 0 {
		return results
	}
	of := map[string]Outcome{}
	for i := range p.Object.Status.Tasks {
		of[p.Object.Status.Tasks[i].Task] = Outcome(p.Object.Status.Tasks[i].Result)
	}
	r := NodeResult{Node: GlobalHost, Batch: when, Result: NotDone}
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

// failedTasks returns the global tasks that failed, in the form of failed nodes.
func failedTasks(status *topsv1.UpgradePlanStatus) (failed []topsv1.FailedNode) {
	for i := range status.Tasks {
		if n := &status.Tasks[i]; n.Result == string(Fail) {
			failed = append(failed, topsv1.FailedNode{Node: GlobalHost, Task: n.Task, Message: n.Message})
		}
	}
	return failed
}
