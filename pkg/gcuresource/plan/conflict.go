package plan

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// failing returns why a component has failed, nil if it has not.
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
	if f := antiAffinityConflict(obs, c); f != nil {
		return f
	}
	if f := notInstalled(c); f != nil {
		return f
	}
	return h.Failure
}

// duplicate returns a Failure if an object of the component is also one of an earlier component,
// or another one of its own: applying both would never end. If the DaemonSet of a later one has the name already, both fail: it is
// not taken over.
func duplicate(obs *state.Observation, c *state.Component) *state.Failure {
	taken := map[component.Ref]string{}
	for i := range obs.Components {
		other := &obs.Components[i]
		for _, d := range other.Objects {
			if of, there := taken[d.Ref]; there && other.Name == c.Name && !d.Ref.Shared() {
				return twice(d.Ref, of, c.Name)
			}
			taken[d.Ref] = other.Name
		}
		if other.Name == c.Name {
			return takes(c, obs.Components[i+1:])
		}
	}
	return nil
}

// takes returns a Failure if a component asks for the name of the DaemonSet of a later one, which still asks for it too.
func takes(c *state.Component, later []state.Component) *state.Failure {
	for i := range later {
		if of := &later[i]; c.PerNode != nil && c.DaemonSet == nil && of.DaemonSet != nil && of.DaemonSetRef() == c.DaemonSetRef() {
			return twice(c.DaemonSetRef(), c.Name, of.Name)
		}
	}
	return nil
}

// twice is the Failure of a name that two components ask for.
func twice(ref component.Ref, first, second string) *state.Failure {
	return &state.Failure{Reason: state.ReasonObjectConflict, Message: fmt.Sprintf(
		"the spec has %s twice, in %s and in %s: give one of them another name or namespace", ref, first, second)}
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

// antiAffinityConflict returns a Failure if a component that does not exist yet has the name of a DaemonSet from which another one takes
// over, or took over, node by node: the scheduler keeps the pods of that one from pods with this name
// (component.WithAntiAffinity), also after the DaemonSet that had it is gone.
func antiAffinityConflict(obs *state.Observation, c *state.Component) *state.Failure {
	if c.PerNode == nil || c.DaemonSet != nil {
		return nil
	}
	ref := c.DaemonSetRef()
	settings, err := component.SettingsOf(obs.Resource)
	byNode := err != nil || settings.Strategy != daemonset.NoStrategy
	held := slices.IndexFunc(obs.Owned, func(o state.Owned) bool { return o.Ref == ref && o.DaemonSet != nil })
	for i := range obs.Components {
		other := &obs.Components[i]
		if other.Name == c.Name {
			continue
		}
		if byNode && held >= 0 && succeeds(other, &obs.Owned[held]) || other.DaemonSet != nil && daemonset.AreRivals(other.DaemonSet, c.PerNode) {
			return &state.Failure{Reason: state.ReasonObjectConflict, Message: fmt.Sprintf(
				"%s was or is that of %s, whose pods keep apart from pods with this name: give %s another name", ref, other.Name, c.Name)}
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
