package gcuresource

import (
	"fmt"
	"slices"
	"time"
)

// Plan is what is to be done about a gr that stays.
type Plan struct {
	// Steps has one element per requested component, in deployment order.
	Steps []Step
	// Delete are the objects the gr no longer asks for.
	Delete []Owned
	// Wait is how long until a pod gets available by mere time; 0 when there is none.
	Wait time.Duration
}

// Step is what is to be done about one component.
type Step struct {
	// Component is its key in the spec.
	Component string
	// Apply are its objects that differ from what was last applied, the DaemonSet last.
	Apply []Desired
	// Create is true when the DaemonSet does not exist yet.
	Create bool
	// Waits says why the component is not created yet; empty when it is.
	Waits string
	// Failure says why nothing can be done; nil when something can.
	Failure *Failure
	health  health
}

// Decide says what is to be done: a component that exists gets its newest
// template at once, so that an upgrade of several reaches the nodes together; a
// component that does not exist is created only when all before it run
// (contract statement 51). One that fails holds up those after it, except one
// this version does not serve.
func Decide(obs *Observation, now time.Time) Plan {
	plan := Plan{Delete: leftovers(obs)}
	nodes := labelled(obs.Nodes)
	before := ""
	for i := range obs.Components {
		c := &obs.Components[i]
		step := Step{Component: c.Name, Failure: c.Failure, health: assess(c, nodes, now)}
		if !c.Served {
			step.Failure = &Failure{Reason: ReasonNotServed,
				Message: fmt.Sprintf("component %s is not served by this version", c.Name)}
			plan.Steps = append(plan.Steps, step)
			continue
		}
		if step.Failure == nil {
			step.Failure = c.conflict(obs.Resource)
		}
		if step.Failure == nil {
			step.decide(obs, c, before, plan.Delete)
		}
		if before == "" && (step.Failure != nil || !step.health.opens()) {
			before = c.Name
			if step.Failure == nil && step.health.running() {
				before += ", which no node runs yet"
			}
		}
		plan.Wait = sooner(plan.Wait, step.health.wait)
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

// decide fills in what to apply. before names the first component ahead that
// does not run on any node, "" when all do.
func (s *Step) decide(obs *Observation, c *Component, before string, leaving []Owned) {
	s.Create = !s.health.exists
	if s.Create {
		s.Waits = creationWaits(c, before, leaving)
	}
	if s.Waits != "" || s.health.terminating {
		return
	}
	for _, d := range c.Objects {
		if !upToDate(&d, c.Live[d.Ref], obs.Applied) {
			s.Apply = append(s.Apply, d)
		}
	}
	// Pods need the account, the roles and the CRD of their component.
	slices.SortStableFunc(s.Apply, func(a, b Desired) int { return isWorkload(a) - isWorkload(b) })
}

func isWorkload(d Desired) int {
	if d.Ref.GroupVersionKind == daemonSetKind {
		return 1
	}
	return 0
}

// creationWaits says what the creation of a component waits for: the one
// before it, and the end of its own old DaemonSet when that had another name.
func creationWaits(c *Component, before string, leaving []Owned) string {
	if before != "" {
		return "waiting for " + before
	}
	for _, o := range leaving {
		if o.Component == c.Name && o.Ref.GroupVersionKind == daemonSetKind {
			return "waiting until " + o.Ref.String() + " is deleted"
		}
	}
	return ""
}

// leftovers returns the objects of the gr that its spec does not ask for.
func leftovers(obs *Observation) []Owned {
	asked := map[Ref]bool{}
	for i := range obs.Components {
		for _, d := range obs.Components[i].Objects {
			asked[d.Ref] = true
		}
	}
	var left []Owned
	for _, o := range obs.Owned {
		if !asked[o.Ref] {
			left = append(left, o)
		}
	}
	return left
}
