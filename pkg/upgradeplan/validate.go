package upgradeplan

import (
	"errors"
	"fmt"
	"slices"
)

// Validate returns every fault of the book, joined, or nil. Each says what is wrong and
// where.
func (b LogicBook) Validate() error {
	v := validator{book: b, actions: map[string]Action{}, targets: map[string]Target{}}
	v.checkActions()
	v.checkTargets()
	v.checkNeeds()
	v.checkSteps()
	if !oneOf(b.ControlPlane, "", Any, First, Last) {
		v.fault("controlPlane %q is none of Any, First, Last", b.ControlPlane)
	}
	return errors.Join(v.faults...)
}

type validator struct {
	book    LogicBook
	actions map[string]Action
	targets map[string]Target
	faults  []error
}

func (v *validator) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Errorf(format, args...))
}

func (v *validator) checkActions() {
	for _, a := range v.book.Actions {
		if err := checkName("action", a.Name); err != nil {
			v.faults = append(v.faults, err)
		}
		if _, ok := v.actions[a.Name]; ok {
			v.fault("action %s appears twice", a.Name)
		}
		v.actions[a.Name] = a
		if !oneOf(a.GroupBy, "", GroupByHost, GroupByTask) {
			v.fault("action %s: groupBy %q is neither host nor task", a.Name, a.GroupBy)
		}
	}
	for _, a := range v.book.Actions {
		if _, ok := v.actions[a.Inverse]; a.Inverse != "" && !ok {
			v.fault("action %s: its undo %q is not an action", a.Name, a.Inverse)
		}
		if a.Inverse == a.Name && a.Inverse != "" {
			v.fault("action %s undoes itself", a.Name)
		}
	}
}

func (v *validator) checkTargets() {
	for _, t := range v.book.Targets {
		if err := checkName("target", t.Name); err != nil {
			v.faults = append(v.faults, err)
		}
		if _, ok := v.targets[t.Name]; ok {
			v.fault("target %s appears twice", t.Name)
		}
		v.targets[t.Name] = t
		switch {
		case t.OfNode && t.Disruption != "":
			v.fault("target %s: a target of the node has no disruption", t.Name)
		case !t.OfNode && t.Disruption.rank() < 0:
			v.fault("target %s: disruption %q is none of %v", t.Name, t.Disruption, disruptions)
		}
	}
}

func (v *validator) checkNeeds() {
	for _, t := range v.book.Targets {
		for _, n := range t.Needs {
			if len(n.Actions) == 0 {
				v.fault("target %s: a need has no actions", t.Name)
			}
			for _, a := range n.Actions {
				if _, ok := v.actions[a]; !ok {
					v.fault("target %s: needs %q, which is not an action", t.Name, a)
				}
			}
			for _, c := range n.Changed {
				if other, ok := v.targets[c]; !ok || other.OfNode {
					v.fault("target %s: a need names %q, which is not a component", t.Name, c)
				}
			}
			if n.Disruption != "" && n.Disruption.rank() < 0 {
				v.fault("target %s: disruption %q of a need is none of %v", t.Name, n.Disruption, disruptions)
			}
		}
	}
}

// checkSteps checks that every needed action of a target is in exactly one step.
func (v *validator) checkSteps() {
	places := map[pair]int{}
	for i, s := range v.book.expandSteps() {
		if _, ok := v.actions[s.Action]; !ok {
			v.fault("step %d: %q is not an action", i+1, s.Action)
			continue
		}
		if len(s.Targets) == 0 {
			v.fault("step %d: no target needs %s that has no other step for it", i+1, s.Action)
		}
		for _, name := range s.Targets {
			t, ok := v.targets[name]
			switch {
			case !ok:
				v.fault("step %d: %q is not a target", i+1, name)
			case !t.needs(s.Action):
				v.fault("step %d: target %s does not need %s", i+1, name, s.Action)
			}
			places[pair{name, s.Action}]++
		}
	}
	for _, t := range v.book.Targets {
		for _, a := range t.actions() {
			if n := places[pair{t.Name, a}]; n != 1 {
				v.fault("%s of target %s is in %d steps instead of one", a, t.Name, n)
			}
		}
	}
}

// actions returns all actions of the target, each once, in the order of its needs.
func (t Target) actions() []string {
	var all []string
	for _, n := range t.Needs {
		for _, a := range n.Actions {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

func (t Target) needs(action string) bool { return slices.Contains(t.actions(), action) }

// pair is an action of a target.
type pair struct{ target, action string }

// expandSteps returns the steps, with targets filled in where a step names none.
func (b LogicBook) expandSteps() []Step {
	named := map[pair]bool{}
	for _, s := range b.Steps {
		for _, t := range s.Targets {
			named[pair{t, s.Action}] = true
		}
	}
	steps := slices.Clone(b.Steps)
	for i, s := range steps {
		if len(s.Targets) > 0 {
			continue
		}
		for _, t := range b.Targets {
			if t.needs(s.Action) && !named[pair{t.Name, s.Action}] {
				steps[i].Targets = append(steps[i].Targets, t.Name)
			}
		}
	}
	return steps
}

func oneOf[T comparable](value T, values ...T) bool { return slices.Contains(values, value) }
