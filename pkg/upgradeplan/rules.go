package upgradeplan

import "fmt"

// rules is a validated book prepared for lookups. It is read-only.
type rules struct {
	// byTask holds, for each step, whether its tasks are jobs of their own.
	byTask  []bool
	targets []target
	// index of a target by its name.
	index map[string]int
	// places of all needed pairs.
	places map[pair]place
}

// place of a task on its host: the step, and the position within its stage.
type place struct{ step, position int }

func (p place) compare(q place) int {
	if p.step != q.step {
		return p.step - q.step
	}
	return p.position - q.position
}

// target is a target with its actions in the order of the steps.
type target struct {
	name    string
	ofNode  bool
	rank    int
	actions []conditions
}

// conditions are the needs for one action, any of which suffices.
type conditions struct {
	action string
	any    []condition
	// ofWhatStays is that of the action.
	ofWhatStays bool
}

// condition is a need: one of changed has changed (nil: any), and the node's worst disruption
// is at least rank.
type condition struct {
	changed []int
	rank    int
}

func newRules(b LogicBook) (*rules, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("reading the logic book: %w", err)
	}
	r := &rules{index: map[string]int{}, places: map[pair]place{}}
	actions := map[string]Action{}
	for _, a := range b.Actions {
		actions[a.Name] = a
	}
	for i, t := range b.Targets {
		r.index[t.Name] = i
		r.targets = append(r.targets, target{name: t.Name, ofNode: t.OfNode, rank: t.Disruption.rank()})
	}
	for i, s := range b.expandSteps() {
		a := actions[s.Action]
		r.byTask = append(r.byTask, a.GroupBy == GroupByTask)
		for j, name := range s.Targets {
			r.places[pair{name, s.Action}] = place{step: i, position: j}
			t := r.index[name]
			r.targets[t].actions = append(r.targets[t].actions, conditions{s.Action, r.conditionsOf(b.Targets[t], s.Action), a.OfWhatStays})
		}
	}
	return r, nil
}

func (r *rules) conditionsOf(t Target, action string) []condition {
	var all []condition
	for _, n := range t.Needs {
		if !oneOf(action, n.Actions...) {
			continue
		}
		c := condition{rank: n.Disruption.rank()}
		for _, name := range n.Changed {
			c.changed = append(c.changed, r.index[name])
		}
		if len(n.Changed) == 0 && !t.OfNode {
			c.changed = []int{r.index[t.Name]}
		}
		all = append(all, c)
	}
	return all
}

// span is a half-open range of steps.
type span struct{ from, to int }

// runs returns the spans of steps that make one batch: consecutive steps grouped by host, or one step grouped by
// task.
func (r *rules) runs() []span {
	var all []span
	for from := 0; from < len(r.byTask); {
		to := from + 1
		for to < len(r.byTask) && !r.byTask[to-1] && !r.byTask[to] {
			to++
		}
		all = append(all, span{from, to})
		from = to
	}
	return all
}
