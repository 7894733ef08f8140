// Package plan decides what to do for a GcuResource (gr): which components are created, applied
// or waited for, and what is deleted.
package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// Plan is what to do for a gr that is not being deleted.
type Plan struct {
	// Steps has one element per requested component, in deployment order.
	Steps []Step
	// Delete are the objects that the gr no longer requests, or not as they are, and that may be deleted now, Leave the
	// DaemonSets among these whose pods are to leave their nodes one by one instead. Replaced are those of Delete, and those
	// that stay for now because what takes their place has to wait.
	Delete, Replaced []state.Owned
	Leave            []*state.Owned
	// Wait is how long until a pod becomes available by time alone; 0 if there is none.
	Wait time.Duration
}

// Applies reports whether there is anything to apply.
func (p *Plan) Applies() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return len(s.Apply) > 0 })
}

// Changes reports whether there is anything to apply or to delete.
func (p *Plan) Changes() bool { return p.Applies() || len(p.Delete) > 0 || len(p.Leave) > 0 }

// Recheck returns when to check again without an event, 0 for never: after failureRetry if a
// component failed.
func (p *Plan) Recheck(failureRetry time.Duration) time.Duration {
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Failure != nil }) {
		return retry.Sooner(p.Wait, failureRetry)
	}
	return p.Wait
}

// Step is what to do for one component.
type Step struct {
	// Component is its key in the spec.
	Component string
	// Apply are its objects that differ from what was last applied, in the order in which they
	// are needed.
	Apply []component.Desired
	// Create is true when none of its workloads exists yet.
	Create bool
	// Waits says what its creation waits for; empty if it does not wait.
	Waits string
	// begun is true if what its creation replaces is being deleted, or is gone, and it does not exist yet.
	begun bool
	// keeps is true while what its creation replaces stays, because it waits for something else, or may have to.
	keeps bool
	// Failure says why the component failed; nil if it has not.
	Failure *state.Failure
	// Health of its pods.
	Health state.Health
}

// Decide returns what to do. An existing component gets its newest template at once, so that an
// upgrade of several reaches the nodes together. A missing component is created only when all
// before it run (contract statement 51). A failed one holds up those after it.
func Decide(obs *state.Observation, now time.Time) Plan {
	left := leftoversOf(obs)
	plan := Plan{Replaced: slices.Concat(left.gone, outdatedJobs(obs), released(obs)), Leave: left.toUpdate}
	nodes := obs.NodeIndex()
	health, failures := assess(obs, &left, nodes, now)
	before, changes := "", false
	for i := range obs.Components {
		c := &obs.Components[i]
		step := Step{Component: c.Name, Health: health[i], Failure: failures[i]}
		if !stops(step.Failure) {
			step.decide(obs, c, &left, nodes, before, now)
			step.keeps = step.keeps || step.Create && changes && !left.goesOn(obs, c)
		}
		changes = changes || step.changes(c, obs.Applied)
		if before == "" && (step.Failure != nil || !step.Health.LetsNextStart()) {
			before = c.Name
			if step.Failure == nil && step.Health.Running() {
				before += ", which no node runs yet"
			}
		}
		plan.Wait = retry.Sooner(plan.Wait, step.Health.Wait)
		plan.Steps = append(plan.Steps, step)
	}
	plan.Delete = webhooksFirst(replaceable(obs, slices.Clone(plan.Replaced), plan.Steps))
	for i := range plan.Steps {
		s := &plan.Steps[i]
		c := &obs.Components[i]
		frees := func(o state.Owned) bool { return freesReplacedResource(&o, c) }
		s.begun = !s.Health.Exists && (left.hasBegun(obs, c) || slices.ContainsFunc(plan.Delete, frees))
	}
	return plan
}

// Begun returns the components that do not exist yet and whose creation replaces what is deleted now, or was (state.Observation.Begun).
func (p *Plan) Begun() map[string]bool {
	begun := map[string]bool{}
	for i := range p.Steps {
		begun[p.Steps[i].Component] = p.Steps[i].begun
	}
	return begun
}

// outdatedJobs returns the Jobs that are not complete and were created from something else than what is wanted now. They are
// created again when they are gone.
func outdatedJobs(obs *state.Observation) (jobs []state.Owned) {
	for i := range obs.Components {
		c := &obs.Components[i]
		for _, d := range c.Objects {
			if d.Ref.GroupVersionKind != component.JobKind {
				continue
			}
			job := c.Jobs[d.Ref.Name]
			if job == nil || state.IsComplete(job) || job.Annotations[topsv1.AnnotationCreatedFrom] == d.Hash {
				continue
			}
			jobs = append(jobs, state.Owned{Ref: d.Ref, UID: job.UID, Version: job.ResourceVersion, Component: c.Name, Deleting: job.DeletionTimestamp != nil})
		}
	}
	return jobs
}

// released returns the volumes that are deleted and created again, to be bound once more. Their files stay on their host.
func released(obs *state.Observation) (volumes []state.Owned) {
	for i := range obs.Components {
		c := &obs.Components[i]
		for _, o := range c.Released {
			if live := c.Live[o.Ref]; live != nil && live.UID == o.UID && state.Ours(obs.Resource, o.Ref, live) {
				volumes = append(volumes, o)
			}
		}
	}
	return volumes
}

// changes reports whether the pods of a component may be about to be replaced: it gets another template, or the cache does not
// show yet that it got one. Whether it runs is not known then. What was applied before and was changed by others since is no other
// template: that may happen in every pass.
func (s *Step) changes(c *state.Component, applied map[types.UID]state.Applied) bool {
	isNew := func(d component.Desired) bool {
		live := c.Live[d.Ref]
		return d.Ref.Workload() && (live == nil || applied[live.UID].Hash != d.Hash)
	}
	return slices.ContainsFunc(s.Apply, isNew) ||
		slices.ContainsFunc(c.Workloads(), func(ref component.Ref) bool {
			live := c.Live[ref]
			return live != nil && live.Generation < applied[live.UID].Generation
		})
}

// replaceable returns the objects but those whose component has failed or waits, or the one that excludes it before it exists: what
// cannot be replaced stays. It goes all the same if it is in the way of a component that waits for nothing else.
func replaceable(obs *state.Observation, objects []state.Owned, steps []Step) []state.Owned {
	return slices.DeleteFunc(objects, func(o state.Owned) bool {
		waited, free := false, false
		for i := range steps {
			s := &steps[i]
			switch {
			case stops(s.Failure) && replaces(s.Component, s.Health.Exists, &o):
				return true
			case s.keeps:
				waited = waited || replaces(s.Component, s.Health.Exists, &o)
			case !stops(s.Failure):
				free = free || Replaces(s.Component, o.Component) || hasNameOf(&obs.Components[i], &o)
			}
		}
		return waited && !free
	})
}

// decide sets what to apply. before names the first earlier component that failed or does not run
// yet, "" if there is none.
func (s *Step) decide(obs *state.Observation, c *state.Component, left *leftovers, nodes *state.NodeIndex, before string, now time.Time) {
	s.Create = !s.Health.Exists
	if s.Create {
		s.awaitOthers(obs, c, left, nodes, before, now)
		if s.keeps = s.Waits != ""; !s.keeps {
			s.awaitLeftovers(obs, c, left, now)
		}
	}
	if s.Waits != "" || s.Health.Terminating || left.closes(c) {
		return
	}
	for _, d := range c.Objects {
		live := c.Live[d.Ref]
		if d.Ref.GroupVersionKind == component.DaemonSetKind && c.PerNode != nil {
			var err error
			if d, err = component.WithAntiAffinity(d, c.DaemonSet, left.predecessorsOf(c)); err != nil {
				s.Failure = state.FailureOf(err)
				return
			}
		}
		if d.Ref.Installed() || upToDate(&d, live, obs.Applied) || s.isEarly(&d, live) {
			continue
		}
		s.Apply = append(s.Apply, d)
	}
	slices.SortStableFunc(s.Apply, func(a, b component.Desired) int { return a.Ref.Rank() - b.Ref.Rank() })
}

// isEarly reports whether an object is a webhook configuration whose pods do not run yet.
func (s *Step) isEarly(d *component.Desired, live *metav1.PartialObjectMetadata) bool {
	return d.Ref.Webhook() && live == nil && !s.Health.ReplicasRun()
}

// stuckAfter is how long after the end of its grace a pod that still terminates holds up a DaemonSet that takes its place: on
// one node something keeps it, and all others would lack the component.
const stuckAfter = 5 * time.Minute

// awaitOthers sets what the creation of a component waits for, but for what it takes the place of: an earlier component, the
// deletion of workloads of other grs that it excludes, or a restart.
func (s *Step) awaitOthers(obs *state.Observation, c *state.Component, left *leftovers, nodes *state.NodeIndex, before string, now time.Time) {
	if before != "" && !left.goesOn(obs, c) {
		s.Waits = "waiting for " + before
		return
	}
	for _, r := range obs.Excluded {
		if slices.Contains(component.Find(c.Name).Excludes, r.Component) && !left.goBefore(obs, r.GcuResource) {
			s.Waits = waitingFor(r)
			return
		}
	}
	s.awaitRestart(obs, c, nodes, now)
}

// awaitLeftovers sets for which objects the creation of a component waits that go before it: its own old workload with another
// name, or another component's with its name, the pods of either, or workloads that it excludes.
func (s *Step) awaitLeftovers(obs *state.Observation, c *state.Component, left *leftovers, now time.Time) {
	if o := left.inTheWayOf(c); o != nil {
		s.Waits = "waiting until " + o.Ref.String() + " is deleted"
		return
	}
	if c.PerNode != nil {
		isStuck := func(pod *corev1.Pod) bool {
			ends := obs.StateTimes.GraceEnd(pod, now)
			return !ends.IsZero() && now.After(ends.Add(stuckAfter))
		}
		if nodes, _ := podNodes(obs, c.Name, isStuck); len(nodes) > 0 {
			s.Waits = "waiting until the pods of a former DaemonSet are gone on " + message.Names(nodes)
			s.Health.Wait = retry.Sooner(s.Health.Wait, stuckAfter)
			return
		}
	}
	for _, r := range obs.Excluded {
		if slices.Contains(component.Find(c.Name).Excludes, r.Component) {
			s.Waits = waitingFor(r)
			return
		}
	}
}

func waitingFor(r state.ExcludedWorkload) string {
	return fmt.Sprintf("waiting until %s of GcuResource %s is deleted", r.Ref, r.GcuResource)
}

// awaitRestart delays the creation of a plugin until the container engines that the toolkit of the gr has just
// configured are restarted: before that, containers get no cards. An existing plugin never waits.
func (s *Step) awaitRestart(obs *state.Observation, c *state.Component, nodes *state.NodeIndex, now time.Time) {
	if c.Offers() == nil {
		return
	}
	for i := range obs.Components {
		if toolkit := &obs.Components[i]; toolkit.Name == component.Toolkit {
			names, wait := state.AwaitedRestarts(toolkit, nodes, now)
			if len(names) > 0 {
				s.Waits = "waiting until docker or containerd is restarted on one of these nodes: " + message.Names(names)
				s.Health.Wait = wait
			}
		}
	}
}
