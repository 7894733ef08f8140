package planfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// maxBatches is how many batches Of writes, which merges consecutive ones: not more than a plan may have.
const maxBatches = 100

// OfflineBatch is the name of the batch of the nodes that were offline when a plan was written.
const OfflineBatch = "offline"

// Of returns the jobs and batches of a mission. nodes are the nodes that it was made from, by name, and
// seconds is how long one usually takes. offline are the names of further nodes, which get the
// last batch: they are upgraded when they return. It returns an error for nodes that the book cannot plan.
func Of(book upgradeplan.LogicBook, mission upgradeplan.Mission, nodes map[string]upgradeplan.Node, offline []string, seconds int32) (topsv1.UpgradePlanSpec, error) {
	w := writer{nodes: nodes, seconds: seconds, byShape: map[string]string{}}
	together := max(1, (len(mission)+maxBatches-2)/(maxBatches-1)) // and one for the offline nodes
	for i := 0; i < len(mission); i += together {
		w.batch("batch-"+strconv.Itoa(len(w.spec.Batches)+1), slices.Concat(mission[i:min(i+together, len(mission))]...))
	}
	late, err := jobsOf(book, nodes, offline)
	if err != nil {
		return w.spec, err
	}
	w.batch(OfflineBatch, late)
	return w.spec, nil
}

// jobsOf returns the jobs of nodes with these names.
func jobsOf(book upgradeplan.LogicBook, nodes map[string]upgradeplan.Node, names []string) (upgradeplan.Batch, error) {
	var some []upgradeplan.Node
	for _, name := range names {
		some = append(some, nodes[name])
	}
	mission, err := upgradeplan.Plan(book, some, 0)
	if err != nil {
		return nil, fmt.Errorf("planning the offline nodes: %w", err)
	}
	return slices.Concat(mission...), nil
}

type writer struct {
	spec    topsv1.UpgradePlanSpec
	nodes   map[string]upgradeplan.Node
	seconds int32
	// byShape has the names of the jobs by what they do.
	byShape map[string]string
}

// batch adds a batch, unless it has no jobs.
func (w *writer) batch(name string, jobs upgradeplan.Batch) {
	if len(jobs) == 0 {
		return
	}
	b := topsv1.PlannedBatch{Name: name, Approval: topsv1.ApprovalAutomatic}
	for _, job := range jobs {
		class := w.class(job)
		i := slices.IndexFunc(b.Jobs, func(n topsv1.PlannedNodes) bool { return n.Job == class })
		if i < 0 {
			i = len(b.Jobs)
			b.Jobs = append(b.Jobs, topsv1.PlannedNodes{Job: class})
		}
		b.Jobs[i].Nodes = append(b.Jobs[i].Nodes, job.Host())
	}
	w.spec.Batches = append(w.spec.Batches, b)
}

// class returns the name of the job of a host, which it adds to the plan if it is new.
func (w *writer) class(job upgradeplan.Job) string {
	node := w.nodes[job.Host()]
	class := topsv1.PlannedJob{Reason: reason(node, job), Seconds: w.seconds, Removes: node.Removed, Stages: stagesOf(job)}
	shape := fmt.Sprint(class)
	if name, known := w.byShape[shape]; known {
		return name
	}
	class.Name = "job-" + strconv.Itoa(len(w.spec.Jobs)+1)
	w.byShape[shape] = class.Name
	w.spec.Jobs = append(w.spec.Jobs, class)
	return class.Name
}

// reason describes why a node has its job.
func reason(node upgradeplan.Node, job upgradeplan.Job) string {
	var upgrades, along []string
	for t := range job.All() {
		switch {
		case t.Action != upgradeplan.ActionReplace:
		case slices.Contains(node.Changed, t.Target):
			upgrades = append(upgrades, t.Target)
		default:
			along = append(along, t.Target)
		}
	}
	said := "not at the wanted revision: " + strings.Join(upgrades, ", ")
	if len(along) > 0 {
		said += "; new pods along with them: " + strings.Join(along, ", ")
	}
	return said
}

func stagesOf(job upgradeplan.Job) []topsv1.PlannedStage {
	stages := make([]topsv1.PlannedStage, len(job))
	for i, stage := range job {
		for _, t := range stage {
			stages[i] = append(stages[i], taskOf(t))
		}
	}
	return stages
}

// taskOf returns a task without its host: target_action.
func taskOf(t upgradeplan.Task) string { return t.Target + "_" + t.Action }
