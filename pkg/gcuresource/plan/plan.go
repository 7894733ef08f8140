// Package plan decides what is to be done about a GcuResource (gr): what of its
// components is created, applied or waited for, and what is deleted.
package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Plan is what is to be done about a gr that stays.
type Plan struct {
	// Steps has one element per requested component, in deployment order.
	Steps []Step
	// Delete are objects the gr no longer asks for: those that may go first.
	Delete []state.Owned
	// Wait is how long until a pod gets available by mere time; 0 when there is none.
	Wait time.Duration
}

// Applies reports whether anything is to be applied.
func (p *Plan) Applies() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return len(s.Apply) > 0 })
}

// Step is what is to be done about one component.
type Step struct {
	// Component is its key in the spec.
	Component string
	// Apply are its objects that differ from what was last applied, in the order
	// in which they are needed.
	Apply []component.Desired
	// Create is true when none of its workloads exists yet.
	Create bool
	// Waits says why the component is not created yet; empty when it is.
	Waits string
	// Failure says why nothing can be done; nil when something can.
	Failure *state.Failure
	// Health is how it does.
	Health state.Health
}

// Decide says what is to be done: a component that exists gets its newest
// template at once, so that an upgrade of several reaches the nodes together; a
// component that does not exist is created only when all before it run
// (contract statement 51). One that fails holds up those after it.
func Decide(obs *state.Observation, now time.Time) Plan {
	plan := Plan{Delete: webhooksFirst(leftovers(obs))}
	nodes := obs.NodeIndex()
	before := ""
	for i := range obs.Components {
		c := &obs.Components[i]
		step := Step{Component: c.Name, Health: obs.Assess(c, nodes, now)}
		step.Failure = failing(obs, c, &step.Health)
		if step.Failure == nil || step.Failure.Reason == state.ReasonJobFailed {
			step.decide(obs, c, before)
		}
		if before == "" && (step.Failure != nil || !step.Health.LetsNextStart()) {
			before = c.Name
			if step.Failure == nil && step.Health.Running() {
				before += ", which no node runs yet"
			}
		}
		plan.Wait = state.Sooner(plan.Wait, step.Health.Wait)
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

// decide fills in what to apply. before names the first component ahead that
// does not run on any node, "" when all do.
func (s *Step) decide(obs *state.Observation, c *state.Component, before string) {
	s.Create = !s.Health.Exists
	if s.Create {
		s.Waits = creationWaits(obs, c, before)
	}
	if s.Waits != "" || s.Health.Terminating {
		return
	}
	for _, d := range c.Objects {
		live := c.Live[d.Ref]
		if upToDate(&d, live, obs.Applied) || (d.Ref.Webhook() && live == nil && !s.Health.ReplicasRun()) {
			continue
		}
		s.Apply = append(s.Apply, d)
	}
	slices.SortStableFunc(s.Apply, func(a, b component.Desired) int { return a.Ref.Rank() - b.Ref.Rank() })
}

// creationWaits says what the creation of a component waits for: the one
// before it, the end of its own old workload when that had another name, and
// the end of what must not run beside it.
func creationWaits(obs *state.Observation, c *state.Component, before string) string {
	if before != "" {
		return "waiting for " + before
	}
	excludes := component.Find(c.Name).Excludes
	for _, o := range leftovers(obs) {
		if o.Ref.Workload() && (o.Component == c.Name || slices.Contains(excludes, o.Component)) {
			return "waiting until " + o.Ref.String() + " is deleted"
		}
	}
	for _, r := range obs.Rivals {
		if slices.Contains(excludes, r.Component) {
			return fmt.Sprintf("waiting until %s of GcuResource %s is deleted", r.Ref, r.GcuResource)
		}
	}
	return ""
}

// leftovers returns the objects of the gr that its spec does not ask for.
func leftovers(obs *state.Observation) []state.Owned {
	asked := map[component.Ref]bool{}
	for i := range obs.Components {
		for _, d := range obs.Components[i].Objects {
			asked[d.Ref] = true
		}
	}
	var left []state.Owned
	for _, o := range obs.Owned {
		if !asked[o.Ref] {
			left = append(left, o)
		}
	}
	return left
}

// webhooksFirst returns what of the objects may be deleted now: webhook
// configurations before anything that answers for them.
func webhooksFirst(objects []state.Owned) []state.Owned {
	var webhooks []state.Owned
	for _, o := range objects {
		if o.Ref.Webhook() {
			webhooks = append(webhooks, o)
		}
	}
	if len(webhooks) > 0 {
		return webhooks
	}
	return objects
}
