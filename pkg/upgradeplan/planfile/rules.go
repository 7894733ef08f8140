package planfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Read checks an UpgradePlan against the rules. The error joins all faults, each with its rule.
func Read(object *topsv1.UpgradePlan, book upgradeplan.LogicBook) (*Plan, error) {
	return read(object, &book)
}

// Recall reads an UpgradePlan for its result, without the rules of jobs: it was checked when it was stored, and a later
// logic book may have other rules. The error says why it cannot be read.
func Recall(object *topsv1.UpgradePlan) (*Plan, error) { return read(object, nil) }

func read(object *topsv1.UpgradePlan, book *upgradeplan.LogicBook) (*Plan, error) {
	r := reader{Plan: &Plan{Object: object, jobs: map[string]*job{}, nodes: map[string]place{}}, book: book}
	if object.Spec.GcuResource == "" || object.Spec.Revision == "" {
		r.fault("spec.gcuResource and spec.revision are required: they say what the plan is for")
	}
	for i := range object.Spec.Jobs {
		r.job(&object.Spec.Jobs[i])
	}
	if len(object.Spec.Batches) == 0 {
		r.fault("it has no batches: a plan has at least one")
	}
	names := map[string]bool{}
	for i := range object.Spec.Batches {
		b := &object.Spec.Batches[i]
		if b.Name == "" || b.Name == rest || names[b.Name] {
			r.fault("batch %d has the name %q: each batch needs a name of its own, and rest is reserved for the nodes in no batch", i+1, b.Name)
		}
		if names[b.Name] = true; b.Approval != "" && b.Approval != topsv1.ApprovalAutomatic && b.Approval != topsv1.ApprovalManual {
			r.fault("batch %s: approval %q is neither Automatic nor Manual", b.Name, b.Approval)
		}
		r.batch(i, b)
	}
	r.global()
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	return r.Plan, nil
}

// rest is the reserved batch name of the nodes that are in no batch.
const rest = "rest"

type reader struct {
	*Plan
	// book has the rules of jobs; nil if they are not checked.
	book   *upgradeplan.LogicBook
	faults []error
}

// mostFaults bounds how many faults are reported: a large plan may have one for each node.
const mostFaults = 20

func (r *reader) fault(format string, args ...any) {
	if len(r.faults) < mostFaults {
		r.faults = append(r.faults, fmt.Errorf(format, args...))
	}
}

// batch reads the nodes of a batch.
func (r *reader) batch(index int, b *topsv1.PlannedBatch) {
	if len(b.Jobs) == 0 {
		r.fault("batch %s has no jobs: remove it", b.Name)
	}
	for _, of := range b.Jobs {
		j := r.jobs[of.Job]
		if j == nil {
			r.fault("batch %s: there is no job %q in spec.jobs", b.Name, of.Job)
			continue
		}
		if len(of.Nodes) == 0 {
			r.fault("batch %s: job %s has no nodes: remove it from the batch", b.Name, of.Job)
		}
		for _, node := range of.Nodes {
			if err := (upgradeplan.Task{Host: node, Target: "x", Action: "x"}).Validate(); err != nil {
				r.fault("batch %s: %q is not the name of a node", b.Name, node)
			}
			if at, twice := r.nodes[node]; twice {
				r.fault("node %s is in batch %s and in batch %s: a node has one job in one batch", node, r.Object.Spec.Batches[at.batch].Name, b.Name)
			}
			r.nodes[node] = place{index, j}
		}
	}
}

// job reads a job and adds it.
func (r *reader) job(from *topsv1.PlannedJob) {
	if from.Name == "" || r.jobs[from.Name] != nil {
		r.fault("there are two jobs with the name %q: each job has a name of its own", from.Name)
		return
	}
	j := &job{name: from.Name, removes: from.Removes}
	r.jobs[j.name] = j
	for _, stage := range from.Stages {
		var pairs []pair
		for _, text := range stage {
			t, err := upgradeplan.ParseTask("host_" + text)
			if err != nil || !r.isKnown(t.Action) {
				r.fault("job %s: %q is not a task of the form target_action, such as driver_replace", j.name, text)
				return
			}
			p := pair{t.Target, t.Action}
			if j.has(p) || slices.Contains(pairs, p) {
				r.fault("job %s: %s appears twice: a job does each task once", j.name, text)
				return
			}
			if pairs = append(pairs, p); p.action == upgradeplan.ActionReplace {
				j.components = append(j.components, p.target)
			}
		}
		j.stages = append(j.stages, pairs)
	}
	if r.book != nil {
		r.keepsRules(j)
	}
}

func (r *reader) isKnown(action string) bool {
	return r.book == nil || slices.ContainsFunc(r.book.Steps, func(s upgradeplan.Step) bool { return s.Action == action })
}

// keepsRules compares a job with what the book does for its components.
func (r *reader) keepsRules(j *job) {
	if len(j.components) == 0 {
		r.fault("job %s replaces nothing: a job that only prepares or verifies is not allowed; remove its nodes instead", j.name)
		return
	}
	if i := slices.IndexFunc(j.removes, func(c string) bool { return !slices.Contains(j.components, c) }); i >= 0 {
		r.fault("job %s: removes names %s, which the job does not replace", j.name, j.removes[i])
		return
	}
	whole, err := upgradeplan.Plan(*r.book, []upgradeplan.Node{{Name: host, Deployed: j.components, Changed: j.components, Removed: j.removes}}, 1)
	if err != nil {
		r.fault("job %s: %w", j.name, err)
		return
	}
	for t := range whole.All() {
		switch p := (pair{t.Target, t.Action}); {
		case j.has(p):
		case r.isOptional(p.action):
			j.leaves = append(j.leaves, p)
		default:
			r.fault("job %s: %s may not be left out: %s. You may leave out %s, or a component with all its tasks",
				j.name, taskOf(t), r.why(j, p), strings.Join(r.optional(), " and "))
		}
	}
	r.keepsOrder(j, whole)
}

// host stands for any host.
const host = "host"

// keepsOrder compares the order of a job with the one of the book. whole is the job with nothing left
// out.
func (r *reader) keepsOrder(j *job, whole upgradeplan.Mission) {
	for _, stage := range j.stages {
		for _, p := range stage {
			if !slices.Contains(slices.Collect(whole.All()), upgradeplan.Task{Host: host, Target: p.target, Action: p.action}) {
				r.fault("job %s: %s_%s belongs to no component that the job replaces (%s)", j.name, p.target, p.action, strings.Join(j.components, ", "))
				return
			}
		}
	}
	kept := slices.Collect(j.on(host).All())
	order := slices.Concat(upgradeplan.Cut(whole, func(t upgradeplan.Task) bool { return slices.Contains(kept, t) })...)
	if len(order) != 1 || !slices.EqualFunc(order[0], j.on(host), sameTasks) {
		var stages []string
		for _, s := range stagesOf(slices.Concat(order...)) {
			stages = append(stages, "["+strings.Join(s, ", ")+"]")
		}
		r.fault("job %s: the tasks on a node must have the order of the logic book: %s. You may reorder batches, and move nodes to other batches; the order of nodes within a batch has no effect", j.name, strings.Join(stages, " "))
	}
}

// sameTasks reports whether two stages have the same tasks, in any order.
func sameTasks(a, b upgradeplan.Stage) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(t upgradeplan.Task) bool { return !slices.Contains(b, t) })
}

func (r *reader) isOptional(action string) bool { return slices.Contains(r.optional(), action) }

// optional returns the actions that may be left out.
func (r *reader) optional() (names []string) {
	for _, a := range r.book.Actions {
		if a.Optional {
			names = append(names, a.Name)
		}
	}
	return names
}

// why returns why a task may not be left out.
func (r *reader) why(j *job, p pair) string {
	switch p.action {
	case upgradeplan.ActionCordon, upgradeplan.ActionEvict:
		return "the node must be emptied before a component that its pods depend on is changed (" + strings.Join(j.components, ", ") + ")"
	case upgradeplan.ActionVerify, upgradeplan.ActionPrecheck:
		return "the node must be checked before and after such a change (" + strings.Join(j.components, ", ") + ")"
	case upgradeplan.ActionUncordon:
		return "a node that is cordoned must be uncordoned again"
	}
	return "the change of " + strings.Join(j.components, ", ") + " needs it"
}

// maxGlobal is how many global tasks a plan may have before the nodes, and as many after them.
const maxGlobal = 20

var (
	globalTask = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?_[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	objectName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
)

// global checks the global tasks.
func (r *reader) global() {
	names := map[string]bool{}
	for _, t := range globalTasks(&r.Object.Spec) {
		switch {
		case len(t.Task) > 40 || !globalTask.MatchString(t.Task):
			r.fault("global task %q is not of the form target_action, such as database_backup, with at most 40 lower case letters, digits and hyphens", t.Task)
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
		r.fault("node %s has the name that stands for the host of global tasks: plan this node without global tasks", GlobalHost)
	}
}
