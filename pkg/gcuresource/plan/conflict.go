package plan

import (
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// assess returns the health of each component, and why it has failed, nil if it has not. What has failed keeps its DaemonSet, so
// that one that gets the name of that fails too, and the next one.
func assess(obs *state.Observation, left *leftovers, nodes *state.NodeIndex, now time.Time) ([]state.Health, []*state.Failure) {
	health, failures := make([]state.Health, len(obs.Components)), make([]*state.Failure, len(obs.Components))
	for i := range obs.Components {
		health[i] = obs.Assess(&obs.Components[i], nodes, now)
		failures[i] = failing(obs, &obs.Components[i], &health[i])
	}
	keeps := func(i int, o *state.Owned) bool {
		return stops(failures[i]) && replaces(obs.Components[i].Name, health[i].Exists, o)
	}
	for again := true; again; {
		again = false
		for i := range obs.Components {
			if failures[i] == nil {
				failures[i] = nameConflict(obs, &obs.Components[i], left, keeps)
				again = again || failures[i] != nil
			}
		}
	}
	return health, failures
}

// stops reports whether a component failed so that nothing of it is changed. A failed Job does not: another template may
// be the remedy.
func stops(f *state.Failure) bool { return f != nil && f.Reason != state.ReasonJobFailed }

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

// nameConflict returns a Failure if a component that does not exist yet has the name of a DaemonSet of another one that does not get
// free: a component that has failed keeps it, or it has begun to leave under a strategy that the gr no longer has. Or another one takes
// over, or took over, from it node by node: the scheduler keeps its pods from pods with this name (component.WithAntiAffinity), also
// after it is gone.
func nameConflict(obs *state.Observation, c *state.Component, left *leftovers, keeps func(component int, o *state.Owned) bool) *state.Failure {
	if c.PerNode == nil || c.DaemonSet != nil {
		return nil
	}
	ref, atOnce, why := c.DaemonSetRef(), removesAtOnce(obs.Resource), ""
	held := daemonSetOf(obs, ref)
	if held != nil && atOnce && slices.Contains(left.leaving, held) {
		why = "is still that of " + held.Component + ", which has begun to leave and has no update strategy to go on"
	}
	for i := range obs.Components {
		other := &obs.Components[i]
		switch {
		case other.Name == c.Name:
		case held != nil && keeps(i, held):
			why = "is that of " + held.Component + ", and stays because " + other.Name + " has failed"
		case held != nil && !atOnce && succeeds(other, held), other.DaemonSet != nil && daemonset.AreRivals(other.DaemonSet, c.PerNode):
			why = "is or was that of " + other.Name + ", whose pods keep apart from pods with this name"
		}
	}
	if why == "" {
		return nil
	}
	return &state.Failure{Reason: state.ReasonObjectConflict, Message: fmt.Sprintf("%s %s: give %s another name", ref, why, c.Name)}
}

// daemonSetOf returns the DaemonSet of a name, nil if it does not exist or is deleted.
func daemonSetOf(obs *state.Observation, ref component.Ref) *state.Owned {
	for i := range obs.Owned {
		if o := &obs.Owned[i]; o.Ref == ref && o.DaemonSet != nil && !o.Deleting {
			return o
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
