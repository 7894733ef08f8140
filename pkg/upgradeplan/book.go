package upgradeplan

import (
	"slices"
)

// LogicBook is the logic book: how targets are upgraded (contract statement 93, design section 4).
// It is a value: copy it, change the copy, Validate it. DefaultBook is the one for the GCU
// components.
type LogicBook struct {
	// Actions are all actions, in any order.
	Actions []Action `json:"actions"`
	// Targets are all targets: components, and parts of the node.
	Targets []Target `json:"targets"`
	// Steps are the order, on a node and over the fleet. Each action of each target is in
	// exactly one step.
	Steps []Step `json:"steps"`
	// ControlPlane says when control plane nodes are upgraded within their wave.
	// Default Any.
	ControlPlane Place `json:"controlPlane,omitempty"`
}

// Action is one kind of action on a target.
type Action struct {
	// Name of the action, the third part of a task.
	Name string `json:"name"`
	// GroupBy is how its tasks become jobs (decision D23). Default Host.
	GroupBy GroupBy `json:"groupBy,omitempty"`
	// OfWhatStays actions prepare or check what stays on the node: a component that is removed
	// does not make them necessary.
	OfWhatStays bool `json:"ofWhatStays,omitempty"`
	// Optional actions may be left out of a plan that a person edits. No action that protects a node
	// or its workloads is optional.
	Optional bool `json:"optional,omitempty"`
	// Inverse is the action that reverses this one on the same target. Empty: there is nothing
	// to reverse.
	Inverse string `json:"undo,omitempty"`
}

// GroupBy is how tasks become jobs.
type GroupBy string

const (
	// GroupByHost gives a host one job for all its tasks of a step, as one stage. Consecutive
	// steps grouped by host are stages of the same job.
	GroupByHost GroupBy = "host"
	// GroupByTask makes each task a job, and each step a batch: all hosts finish
	// the step before any starts the next.
	GroupByTask GroupBy = "task"
)

// Target is a component or a part of the node.
type Target struct {
	// Name of the target, the second part of a task.
	Name string `json:"name"`
	// OfNode targets, such as the node itself, exist on every node and are not deployed. They
	// do not change; a change of a component makes actions on them necessary.
	OfNode bool `json:"ofNode,omitempty"`
	// Disruption is what a change of this component does to its node. Required for a
	// component, absent for a target OfNode.
	Disruption Disruption `json:"disruption,omitempty"`
	// Needs are the actions needed, and when.
	Needs []Need `json:"needs"`
}

// Need asks for actions on its target when Changed and Disruption both hold on
// a node.
type Need struct {
	// Actions that are needed.
	Actions []string `json:"actions"`
	// Changed holds when one of these components changes on the node. Empty: the target
	// itself or, for a target OfNode, any component.
	Changed []string `json:"changed,omitempty"`
	// Disruption holds when a changing component has this disruption or a worse one. Empty:
	// always.
	Disruption Disruption `json:"disruption,omitempty"`
}

// Step is one place in the order.
type Step struct {
	// Action of the step.
	Action string `json:"action"`
	// Targets whose tasks run at the same time, in the order in which they are printed.
	// Empty: every target that needs the action and has no other step for it.
	Targets []string `json:"targets,omitempty"`
}

// Place is when control plane nodes are upgraded.
type Place string

// Places of control plane nodes.
const (
	Any   Place = "Any"
	First Place = "First"
	Last  Place = "Last"
)

// Disruption is what an upgrade does to a node. Each includes the ones before it (design
// section 4, decision D21).
type Disruption string

// Disruptions, from the mildest to the worst.
const (
	// ReplacePod replaces the component's own pod.
	ReplacePod Disruption = "ReplacePod"
	// EvictAccelerator evicts the pods that use the accelerator.
	EvictAccelerator Disruption = "EvictAccelerator"
	// RestartRuntime restarts the container runtime.
	RestartRuntime Disruption = "RestartRuntime"
	// DrainNode evicts all pods. RestartRuntime becomes DrainNode on a node whose runtime
	// stops its containers when it restarts.
	DrainNode Disruption = "DrainNode"
)

var disruptions = []Disruption{ReplacePod, EvictAccelerator, RestartRuntime, DrainNode}

// Components returns the names of the components, without the parts of the node.
func (b LogicBook) Components() []string {
	var names []string
	for _, t := range b.Targets {
		if !t.OfNode {
			names = append(names, t.Name)
		}
	}
	return names
}

// rank is the index of d from the mildest, 0, to the worst; -1 for none.
func (d Disruption) rank() int { return slices.Index(disruptions, d) }

// InverseOf returns the task that reverses t, and false when there is nothing to reverse or the book
// does not know the action. A whole node is not undone by these tasks but by a new plan to
// the previous revisions.
func (b LogicBook) InverseOf(t Task) (Task, bool) {
	i := slices.IndexFunc(b.Actions, func(a Action) bool { return a.Name == t.Action })
	if i < 0 || b.Actions[i].Inverse == "" {
		return Task{}, false
	}
	return Task{Host: t.Host, Target: t.Target, Action: b.Actions[i].Inverse}, true
}

// Disruption returns the worst disruption of a node by a change of these components, "" when
// the book knows none of them. restartStopsContainers means that the node's runtime stops its
// containers when it restarts, as docker does without live-restore.
func (b LogicBook) Disruption(changed []string, restartStopsContainers bool) Disruption {
	worst := Disruption("")
	for _, t := range b.Targets {
		if slices.Contains(changed, t.Name) && t.Disruption.rank() > worst.rank() {
			worst = t.Disruption
		}
	}
	if worst == RestartRuntime && restartStopsContainers {
		return DrainNode
	}
	return worst
}
