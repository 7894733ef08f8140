package dashboard

import (
	"maps"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Ways to group the nodes of a gr.
const (
	byZone = "zone"
	byWave = "wave"
	byPlan = "plan"
)

// group is some nodes of the grid.
type group struct {
	// Name is empty for the nodes that are in no other group.
	Name string
	// When is before or after for the global tasks of a plan, which have no nodes; else empty.
	When string
	// Note is the state of a wave or batch, or why nodes have a job; empty if there is none.
	Note  string
	Cells []cell
	// Stages are the tasks of the nodes, if they are grouped by a plan.
	Stages [][]task
}

// task is a task of a job, with the number of nodes by its result.
type task struct {
	// Name is target_action.
	Name                string
	Done, Fail, NotDone int
}

// cell is a node in the grid. Color, pattern and letter show its state.
type cell struct {
	Name, State, Letter, Reason string
	Stuck                       bool
}

// Title says in words what the cell shows.
func (c cell) Title(w words) string {
	title := c.Name + ": " + w.Of(c.State)
	if c.Reason != "" {
		title += " (" + w.Label(c.Reason).Text + ")"
	}
	if c.Stuck {
		title += ", " + w.Of("stuck")
	}
	return title
}

// letters are the states of nodes in the order of the bar, with their letters.
var letters = []struct{ state, letter string }{
	{string(rollout.Updated), "U"}, {string(rollout.InFlight), "F"}, {string(rollout.Pending), "P"}, {string(rollout.Held), "H"},
	{string(rollout.Skipped), "S"}, {string(rollout.Failed), "X"}, {string(rollout.Pinned), "N"}, {display.Outdated, "O"},
}

func letterOf(state string) string {
	for _, l := range letters {
		if l.state == state {
			return l.letter
		}
	}
	return "?"
}

// choicesOf returns how the nodes of a gr can be grouped; the first is the default.
func choicesOf(r Resource) []string {
	var choices []string
	if r.Plan != nil {
		choices = append(choices, byPlan)
	}
	choices = append(choices, byZone)
	if r.Wave != nil {
		choices = append(choices, byWave)
	}
	return choices
}

// groupsOf returns the nodes of a gr, grouped.
func groupsOf(r Resource, by string) []group {
	switch by {
	case byPlan:
		return jobsOf(r)
	case byWave:
		return wavesOf(r)
	}
	return grouped(r.Nodes, r.Zones)
}

// grouped returns nodes by the group that each is in, sorted by name.
func grouped(nodes []display.Node, in map[string]string) []group {
	cells := map[string][]cell{}
	for i := range nodes {
		name := in[nodes[i].Name]
		cells[name] = append(cells[name], cellOf(&nodes[i]))
	}
	var groups []group
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		groups = append(groups, group{Name: name, Cells: cells[name]})
	}
	return groups
}

func cellOf(n *display.Node) cell {
	c := cell{Name: n.Name, State: n.State, Letter: letterOf(n.State), Reason: n.Reason, Stuck: n.Stuck}
	if c.Reason == string(rollout.ReasonAtTarget) {
		c.Reason = "" // the state says it
	}
	return c
}

// wavesOf returns the nodes by wave, in the order of the rollout, those in no wave last.
func wavesOf(r Resource) []group {
	groups := grouped(r.Nodes, r.Wave)
	place := map[string]int{rollout.RestWave: len(r.Waves)}
	for i, w := range r.Waves {
		if _, known := place[w.Name]; !known {
			place[w.Name] = i
		}
	}
	for i := range groups {
		if at := slices.IndexFunc(r.Waves, func(w display.Wave) bool { return w.Name == groups[i].Name }); at >= 0 {
			groups[i].Note = string(r.Waves[at].State)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return place[a.Name] - place[b.Name] })
	for i := range groups {
		if groups[i].Name == rollout.RestWave {
			groups[i].Name = ""
		}
	}
	return groups
}

// jobsOf returns the nodes by batch and job of the plan in force, with the results of the tasks, the global tasks before
// and after them, and the nodes that are not in the plan last.
func jobsOf(r Resource) []group {
	state, results := map[string]*display.Node{}, map[string]planfile.NodeResult{}
	for i := range r.Nodes {
		state[r.Nodes[i].Name] = &r.Nodes[i]
	}
	for _, result := range r.Result.Nodes {
		results[result.Node] = result
	}
	groups := globalsOf(r, planfile.BeforeNodes, r.Plan.Spec.Before)
	for _, batch := range r.Plan.Spec.Batches {
		for _, of := range batch.Jobs {
			g := group{Name: batch.Name + " · " + of.Job, Note: waveNamed(r.Waves, r.Plan.Name+"/"+batch.Name)}
			job := jobNamed(r.Plan, of.Job)
			for _, stage := range job.Stages {
				g.Stages = append(g.Stages, tasksOf(stage, of.Nodes, results))
			}
			for _, name := range of.Nodes {
				n := state[name]
				delete(state, name)
				if n == nil {
					n = &display.Node{Name: name, State: string(rollout.Skipped), Reason: reasonGone}
				}
				g.Cells = append(g.Cells, cellOf(n))
			}
			groups = append(groups, g)
		}
	}
	groups = append(groups, globalsOf(r, planfile.AfterNodes, r.Plan.Spec.After)...)
	others := group{}
	for i := range r.Nodes {
		if state[r.Nodes[i].Name] != nil {
			others.Cells = append(others.Cells, cellOf(&r.Nodes[i]))
		}
	}
	if len(others.Cells) > 0 {
		groups = append(groups, others)
	}
	return groups
}

// globalsOf returns the global tasks that a plan has before or after its nodes, each as a stage because they are done one
// after the other; nothing if there are none.
func globalsOf(r Resource, when string, tasks []topsv1.GlobalTask) []group {
	if len(tasks) == 0 {
		return nil
	}
	results := map[string]planfile.NodeResult{}
	for _, result := range r.Result.Nodes {
		if result.Node == planfile.GlobalHost && result.Batch == when {
			results[planfile.GlobalHost] = result
		}
	}
	g := group{When: when}
	for i := range tasks {
		g.Stages = append(g.Stages, tasksOf(topsv1.PlannedStage{tasks[i].Task}, []string{planfile.GlobalHost}, results))
	}
	return []group{g}
}

// waveNamed returns the state of a wave, or of the last of its parts with a name; empty if there is
// none.
func waveNamed(waves []display.Wave, name string) string {
	for i := range slices.Backward(waves) {
		if waves[i].Name == name || strings.HasSuffix(waves[i].Name, "/"+name) {
			return string(waves[i].State)
		}
	}
	return ""
}

// jobNamed returns a job of a plan; an empty one if the plan, which may not have been checked, has none of
// that name.
func jobNamed(plan *topsv1.UpgradePlan, name string) *topsv1.PlannedJob {
	for i := range plan.Spec.Jobs {
		if plan.Spec.Jobs[i].Name == name {
			return &plan.Spec.Jobs[i]
		}
	}
	return &topsv1.PlannedJob{}
}

// tasksOf counts the results of a stage. Tasks of a node without a result count as not done.
func tasksOf(stage topsv1.PlannedStage, nodes []string, results map[string]planfile.NodeResult) []task {
	tasks := make([]task, len(stage))
	for i, name := range stage {
		tasks[i].Name = name
		for _, node := range nodes {
			of, full := results[node].Tasks, node+"_"+name
			switch {
			case slices.Contains(of.Done, full):
				tasks[i].Done++
			case slices.Contains(of.Fail, full):
				tasks[i].Fail++
			default:
				tasks[i].NotDone++
			}
		}
	}
	return tasks
}
