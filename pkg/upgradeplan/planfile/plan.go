package planfile

import (
	"iter"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Plan is an UpgradePlan that keeps the rules, prepared for lookups. It is read-only.
type Plan struct {
	// Object is the plan as written.
	Object *topsv1.UpgradePlan
	jobs   map[string]*job
	nodes  map[string]place
}

// place is where a node is in a plan.
type place struct {
	batch int
	job   *job
}

// Nodes returns the number of nodes.
func (p *Plan) Nodes() int { return len(p.nodes) }

// Batch returns the index of the batch of a node; false if the node is not in the plan.
func (p *Plan) Batch(node string) (int, bool) {
	at, ok := p.nodes[node]
	return at.batch, ok
}

// HasComponent reports whether the plan replaces a component on a node.
func (p *Plan) HasComponent(node, component string) bool {
	at, ok := p.nodes[node]
	return ok && slices.Contains(at.job.components, component)
}

// Leaves reports whether the plan leaves out an optional task.
func (p *Plan) Leaves(t upgradeplan.Task) bool {
	at, ok := p.nodes[t.Host]
	return ok && slices.Contains(at.job.leaves, pair{t.Target, t.Action})
}

// Mission returns the tasks of the nodes as a mission.
func (p *Plan) Mission() upgradeplan.Mission {
	var m upgradeplan.Mission
	for _, batch := range p.Object.Spec.Batches {
		var b upgradeplan.Batch
		for _, nodes := range batch.Jobs {
			for _, node := range nodes.Nodes {
				b = append(b, p.jobs[nodes.Job].on(node))
			}
		}
		m = append(m, b)
	}
	return m
}

// About returns the batch and the reason of a node.
func (p *Plan) About(node string) string {
	at := p.nodes[node]
	return p.Object.Spec.Batches[at.batch].Name + ", " + at.job.name
}

// pair is a task without its host.
type pair struct{ target, action string }

// job is a class of jobs.
type job struct {
	name   string
	stages [][]pair
	// components that it replaces, and those of them that it removes from the node.
	components, removes []string
	// leaves are the optional tasks that it leaves out.
	leaves []pair
}

// on returns the job on a host.
func (j *job) on(host string) upgradeplan.Job {
	var on upgradeplan.Job
	for _, stage := range j.stages {
		var s upgradeplan.Stage
		for _, t := range stage {
			s = append(s, upgradeplan.Task{Host: host, Target: t.target, Action: t.action})
		}
		on = append(on, s)
	}
	return on
}

// has reports whether it has a task.
func (j *job) has(t pair) bool {
	return slices.ContainsFunc(j.stages, func(s []pair) bool { return slices.Contains(s, t) })
}

// All returns the names of the nodes, in the order of the plan.
func (p *Plan) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, batch := range p.Object.Spec.Batches {
			for _, of := range batch.Jobs {
				for _, node := range of.Nodes {
					if !yield(node) {
						return
					}
				}
			}
		}
	}
}
