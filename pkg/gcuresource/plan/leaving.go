package plan

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// leftovers is what happens to the objects that the spec of a gr no longer requests. Without a
// strategy they are deleted at once, DaemonSets with their pods on all nodes. With one, DaemonSets
// leave their nodes one by one, as the rollout decides (docs/adr/0014).
type leftovers struct {
	// gone are the objects that are deleted as soon as what takes their place can.
	gone []state.Owned
	// leaving are the DaemonSets that still run on some node, or that an operation replaces. The objects that
	// their pods need stay with them.
	leaving []*state.Owned
	// toUpdate are those of leaving whose template or settings have to be changed.
	toUpdate []*state.Owned
}

func leftoversOf(obs *state.Observation) (l leftovers) {
	atOnce := removesAtOnce(obs.Resource)
	var others []*state.Owned
	for _, i := range obs.Leftovers() {
		o := &obs.Owned[i]
		switch {
		case o.DaemonSet == nil || o.Deleting:
			others = append(others, o)
		case atOnce && !daemonset.IsLeaving(o.DaemonSet) && !runsForPlaceholders(obs, o) || hasLeft(o) && !obs.Rollout.InFlight:
			l.gone = append(l.gone, asSeen(o))
		default:
			l.leaving = append(l.leaving, o)
			if !component.IsLeavingUnder(obs.Resource, o.DaemonSet) && SuccessorsExist(obs, o) {
				l.toUpdate = append(l.toUpdate, o)
			}
		}
	}
	l.gone = append(l.gone, l.unneeded(obs, others)...)
	l.gone = append(unserved(obs, l.gone), l.gone...)
	return l
}

// holdsNodePort reports whether a Service has a node port that its component asks for under another name: it
// is in the way of the successor of the pods that are leaving.
func holdsNodePort(obs *state.Observation, o *state.Owned) bool {
	return o.Ref.Kind == "Service" && slices.ContainsFunc(obs.Components, func(c state.Component) bool { return c.Name == o.Component && c.HasNodePort() })
}

// unserved returns the webhook configurations of the gr whose pods are replaced by those of a workload that does not exist
// yet: until it runs they would reject pods in the whole cluster. They are created again when it runs.
func unserved(obs *state.Observation, gone []state.Owned) (webhooks []state.Owned) {
	for i := range obs.Components {
		c := &obs.Components[i]
		server, ok := c.WebhookServer()
		if !ok || c.Live[server] != nil ||
			!slices.ContainsFunc(gone, func(o state.Owned) bool { return o.Component == c.Name && o.Ref.Workload() }) {
			continue
		}
		for _, o := range obs.Owned {
			if o.Component == c.Name && o.Ref.Webhook() && c.Live[o.Ref] != nil {
				webhooks = append(webhooks, o)
			}
		}
	}
	return webhooks
}

// unneeded returns the objects that no pod of a DaemonSet that is leaving needs, or that have to go before it.
func (l *leftovers) unneeded(obs *state.Observation, objects []*state.Owned) (gone []state.Owned) {
	for _, o := range objects {
		if o.Ref.Workload() || holdsNodePort(obs, o) || !l.leaves(o.Component) {
			gone = append(gone, *o)
		}
	}
	return gone
}

// leaves reports whether a DaemonSet of a component is leaving.
func (l *leftovers) leaves(name string) bool {
	return slices.ContainsFunc(l.leaving, func(o *state.Owned) bool { return o.Component == name })
}

// asSeen adds the observed resourceVersion as a precondition of the deletion: a manager with a stale cache must
// not delete a DaemonSet that the spec includes again, with its pods on all nodes.
func asSeen(o *state.Owned) state.Owned {
	ds := *o
	ds.Version = o.DaemonSet.ResourceVersion
	return ds
}

// runsForPlaceholders reports whether a DaemonSet that is to go runs where the one that takes over has only placeholders: the gr went
// back to the name before. Without a strategy nothing replaces these.
func runsForPlaceholders(obs *state.Observation, o *state.Owned) bool {
	return slices.ContainsFunc(obs.Components, func(c state.Component) bool {
		return succeeds(&c, o) && slices.ContainsFunc(c.Pods, daemonset.IsPlaceholder)
	})
}

// hasLeft reports whether no pod of a DaemonSet runs any more, and none will.
func hasLeft(o *state.Owned) bool {
	return len(o.Nodes) == 0 && daemonset.IsLeaving(o.DaemonSet) && o.DaemonSet.Status.ObservedGeneration == o.DaemonSet.Generation
}

// SuccessorsExist reports whether the DaemonSets that take over from a DaemonSet exist: until then it does
// not leave.
func SuccessorsExist(obs *state.Observation, o *state.Owned) bool {
	return !slices.ContainsFunc(obs.Components, func(c state.Component) bool { return succeeds(&c, o) && c.DaemonSet == nil })
}

// predecessorsOf returns the namespace/name of the DaemonSets that a component takes over from.
func (l *leftovers) predecessorsOf(c *state.Component) []string {
	var names []string
	for _, o := range l.leaving {
		if succeeds(c, o) {
			names = append(names, o.Ref.Namespace+"/"+o.Ref.Name)
		}
	}
	return names
}

// goesOn reports whether a component is created though an earlier one does not run: it runs already, under another name, or did until
// its replacement began, and all nodes lack it until it is created.
func (l *leftovers) goesOn(obs *state.Observation, c *state.Component) bool {
	return len(l.predecessorsOf(c)) > 0 || l.hasBegun(obs, c)
}

// hasBegun reports whether what the creation of a component replaces is being deleted, or is gone. An earlier pass knew (Begun), or
// if that was in another process: a workload is being deleted, pods are left, or webhooks are gone and the pods behind them are not.
func (l *leftovers) hasBegun(obs *state.Observation, c *state.Component) bool {
	isDeleted := func(o state.Owned) bool { return o.Deleting && freesReplacedResource(&o, c) }
	isBehind := func(o state.Owned) bool { return o.Ref.Workload() && o.Component == c.Name }
	isClosed := func(d component.Desired) bool { return d.Ref.Webhook() && c.Live[d.Ref] == nil }
	return obs.Begun[c.Name] || len(obs.Former[c.Name]) > 0 || slices.ContainsFunc(l.gone, isDeleted) ||
		slices.ContainsFunc(c.Objects, isClosed) && slices.ContainsFunc(l.gone, isBehind)
}

// freesReplacedResource reports whether the deletion of an object takes from the cluster what a component replaces. The scheduler of shared cards
// does not go on for a device plugin that goes: it waits for the plugin that takes its place.
func freesReplacedResource(o *state.Owned, c *state.Component) bool {
	return (o.Ref.Workload() || o.Ref.Webhook()) && (o.Component == c.Name || succeeds(c, o))
}

// goBefore reports whether what is to be deleted goes before what another gr is to delete: each excludes the other one's, and if
// both waited, neither would ever go on. The older one keeps its own until that of the younger one is gone, so that it loses nothing
// while the younger one waits for something else. With a strategy, the other one would wait for this one; with wrong settings, it removes
// nothing.
func (l *leftovers) goBefore(obs *state.Observation, gr string) bool {
	return slices.ContainsFunc(obs.Others, func(other topsv1.GcuResource) bool {
		return other.Name == gr && l.areAwaitedBy(&other) && (!state.Older(obs.Resource, &other) || removesNodeByNode(&other))
	})
}

// areAwaitedBy reports whether another gr excludes what is to be deleted.
func (l *leftovers) areAwaitedBy(other *topsv1.GcuResource) bool {
	return slices.ContainsFunc(component.Requested(&other.Spec), func(requested string) bool {
		return slices.ContainsFunc(l.gone, func(o state.Owned) bool { return slices.Contains(component.Find(requested).Excludes, o.Component) })
	})
}

// removesAtOnce reports whether a gr deletes DaemonSets that it no longer requests at once, with their pods on all nodes.
func removesAtOnce(gr *topsv1.GcuResource) bool {
	settings, err := component.SettingsOf(gr)
	return err == nil && settings.Strategy == daemonset.NoStrategy
}

// removesNodeByNode reports whether a gr removes them node by node.
func removesNodeByNode(gr *topsv1.GcuResource) bool {
	settings, err := component.SettingsOf(gr)
	return err == nil && settings.Strategy != daemonset.NoStrategy
}

// Replaces reports whether a component takes the place of another one, or of itself under another name or in another namespace.
func Replaces(name, other string) bool {
	return name == other || slices.Contains(component.Find(name).Excludes, other)
}

// replaces reports whether an object stays until a component can be created: it is the component's own, or of one that it excludes.
func replaces(name string, exists bool, o *state.Owned) bool {
	return name == o.Component || !exists && Replaces(name, o.Component)
}

// succeeds reports whether a component takes over from a DaemonSet that leaves: it is the same
// component, under another name or in another namespace, or one that must not run beside it.
func succeeds(c *state.Component, o *state.Owned) bool {
	return c.PerNode != nil && Replaces(c.Name, o.Component)
}

// inTheWayOf returns an object that has to be gone before a component is created, nil for none: an
// old workload of the component itself, or its webhooks, or a workload of a component that it excludes, or a DaemonSet of
// another component that has its name.
func (l *leftovers) inTheWayOf(c *state.Component) *state.Owned {
	for i := range l.gone {
		if o := &l.gone[i]; (o.Ref.Workload() || o.Ref.Webhook()) && Replaces(c.Name, o.Component) || hasNameOf(c, o) {
			return o
		}
	}
	for _, o := range l.leaving {
		if hasNameOf(c, o) {
			return o
		}
	}
	return nil
}

// hasNameOf reports whether an object that is left has the name of a component's DaemonSet.
func hasNameOf(c *state.Component, o *state.Owned) bool {
	return c.PerNode != nil && o.Ref == c.DaemonSetRef()
}

// closes reports whether webhooks of a component are deleted now, before anything else of it changes.
func (l *leftovers) closes(c *state.Component) bool {
	return slices.ContainsFunc(l.gone, func(o state.Owned) bool { return o.Component == c.Name && o.Ref.Webhook() })
}

// webhooksFirst returns the objects that may be deleted now: webhook configurations before the
// pods behind them.
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
