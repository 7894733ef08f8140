package plan

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// failuresOf returns why each component has failed, nil for one that has not. What has failed keeps its DaemonSet, so that one that
// gets the name of that fails too, and the next one.
func failuresOf(obs *state.Observation, health []state.Health) []*state.Failure {
	failures := make([]*state.Failure, len(obs.Components))
	for i := range obs.Components {
		failures[i] = failing(obs, &obs.Components[i], &health[i])
	}
	fails := func(i int) bool { return stops(failures[i]) }
	for again := true; again; {
		again = false
		for i := range obs.Components {
			if failures[i] == nil {
				failures[i] = nameConflict(obs, &obs.Components[i], fails)
				again = again || failures[i] != nil
			}
		}
	}
	return failures
}

// failing returns why a component has failed by itself, nil if it has not.
func failing(obs *state.Observation, c *state.Component, h *state.Health) *state.Failure {
	if c.Failure != nil {
		return c.Failure
	}
	if f := excluded(obs, c.Name); f != nil {
		return f
	}
	if f := duplicate(obs, c); f != nil {
		return f
	}
	if f := conflict(obs.Resource, c); f != nil {
		return f
	}
	if f := notInstalled(c); f != nil {
		return f
	}
	return h.Failure
}

// duplicate returns a Failure if an object of the component is also one of an earlier component,
// or another one of its own: applying both would never end.
func duplicate(obs *state.Observation, c *state.Component) *state.Failure {
	taken := map[component.Ref]string{}
	for i := range obs.Components {
		other := &obs.Components[i]
		for _, d := range other.Objects {
			if of, there := taken[d.Ref]; there && other.Name == c.Name && !d.Ref.Shared() {
				return &state.Failure{Reason: state.ReasonObjectConflict, Message: fmt.Sprintf(
					"the spec has %s twice, in %s and in %s: give one of them another name or namespace", d.Ref, of, c.Name)}
			}
			taken[d.Ref] = other.Name
		}
		if other.Name == c.Name {
			return nil
		}
	}
	return nil
}

// conflict returns a Failure if an object of the component exists and is not ours. Such an object
// is never taken over (decision D28).
func conflict(gr *topsv1.GcuResource, c *state.Component) *state.Failure {
	for _, d := range c.Objects {
		if live := c.Live[d.Ref]; live != nil && !d.Ref.Shared() && !state.Ours(gr, d.Ref, live) {
			return state.ObjectConflict(d.Ref, live)
		}
	}
	return nil
}

// nameConflict returns a Failure if a component that does not exist yet has the name of a DaemonSet of another one that is never free: it
// stays because the other one has failed, or has begun to leave under a strategy that the gr no longer has; or another one takes over, or
// took over, from it node by node, and the scheduler keeps its pods from pods with this name (component.WithAntiAffinity), also after it is gone.
func nameConflict(obs *state.Observation, c *state.Component, fails func(component int) bool) *state.Failure {
	if c.PerNode == nil || c.DaemonSet != nil {
		return nil
	}
	ref, atOnce := c.DaemonSetRef(), removesAtOnce(obs.Resource)
	isOf := func(of string) *state.Failure {
		return &state.Failure{Reason: state.ReasonObjectConflict, Message: fmt.Sprintf("%s was or is that of %s: give %s another name", ref, of, c.Name)}
	}
	held := slices.IndexFunc(obs.Owned, func(o state.Owned) bool { return o.Ref == ref && o.DaemonSet != nil && !o.Deleting })
	if held >= 0 && atOnce && daemonset.IsLeaving(obs.Owned[held].DaemonSet) {
		return isOf(obs.Owned[held].Component)
	}
	for i := range obs.Components {
		other := &obs.Components[i]
		if other.Name == c.Name {
			continue
		}
		stays := held >= 0 && (!atOnce || fails(i)) && succeeds(other, &obs.Owned[held])
		if stays || other.DaemonSet != nil && daemonset.AreRivals(other.DaemonSet, c.PerNode) {
			return isOf(other.Name)
		}
	}
	return nil
}

// notInstalled returns a Failure if a role of the component, or its binding, does not exist.
func notInstalled(c *state.Component) *state.Failure {
	for i := range c.Objects {
		if d := &c.Objects[i]; d.Ref.Installed() && c.Live[d.Ref] == nil {
			return state.NotInstalled(c.Name, d)
		}
	}
	return nil
}

// excluded returns a Failure if an older gr deploys a component that this one excludes: the older
// one has the cards until it is deleted (contract statement 34, components.md section 1.0).
func excluded(obs *state.Observation, name string) *state.Failure {
	for i := range obs.Others {
		other := &obs.Others[i]
		if !state.Older(other, obs.Resource) {
			continue
		}
		for _, requested := range component.Requested(&other.Spec) {
			if slices.Contains(component.Find(name).Excludes, requested) {
				return &state.Failure{Reason: state.ReasonComponentConflict, Message: fmt.Sprintf(
					"GcuResource %s deploys %s, which would hand out the same cards: set notDeploy: true on one side", other.Name, requested)}
			}
		}
	}
	return nil
}

// Replaces reports whether a component takes the place of another one, or of itself under another name or in another namespace.
func Replaces(name, other string) bool {
	return name == other || slices.Contains(component.Find(name).Excludes, other)
}

// succeeds reports whether a component takes over from a DaemonSet that leaves: it is the same
// component, under another name or in another namespace, or one that must not run beside it.
func succeeds(c *state.Component, o *state.Owned) bool {
	return c.PerNode != nil && Replaces(c.Name, o.Component)
}
