package upgradeplan

import (
	"errors"
	"fmt"
	"slices"
)

// Node is the generator's input for one node: deployment data and upgrade data (contract
// statement 93).
type Node struct {
	// Name of the node.
	Name string `json:"name"`
	// ControlPlane reports whether it is a control plane node.
	ControlPlane bool `json:"controlPlane,omitempty"`
	// Wave of the node: lower ones are complete before higher ones start.
	Wave int `json:"wave,omitempty"`
	// Deployed are the components that run on the node, in any order.
	Deployed []string `json:"deployed,omitempty"`
	// Changed are the deployed components that are not at their wanted revision on this node.
	// Nodes may go to different revisions (statement 97).
	Changed []string `json:"changed,omitempty"`
	// Removed are those of Changed that are removed from the node.
	Removed []string `json:"removed,omitempty"`
}

// Generate returns all tasks that bring the nodes to their wanted revisions: by node in the
// given order, by target in the order of the book, by action in the order of the steps. An
// unchanged node has no tasks (contract statement 98).
//
// The error joins every fault of the input: of the book (see LogicBook.Validate), an invalid or
// repeated node name, and a changed component that is not deployed there or not in the book.
// A deployed, unchanged component that is not in the book is ignored.
func Generate(book LogicBook, nodes []Node) ([]Task, error) {
	r, err := newRules(book)
	if err != nil {
		return nil, err
	}
	return r.generate(nodes)
}

func (r *rules) generate(nodes []Node) ([]Task, error) {
	var faults []error
	var tasks []Task
	seen := make(map[string]bool, len(nodes))
	state := newNodeState(r)
	for _, n := range nodes {
		if seen[n.Name] {
			faults = append(faults, fmt.Errorf("node %s appears twice", n.Name))
		}
		seen[n.Name] = true
		if err := state.read(n); err != nil {
			faults = append(faults, err)
			continue
		}
		tasks = state.tasks(n.Name, tasks)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return tasks, nil
}

// nodeState is one node in terms of the rules, reused for each node. The slices are indexed
// by target.
type nodeState struct {
	rules    *rules
	deployed []bool
	// all that changes, and what of it stays.
	all, staying change
}

// change is what changes, and its worst disruption.
type change struct {
	of    []bool
	worst int
}

func newNodeState(r *rules) *nodeState {
	n := len(r.targets)
	return &nodeState{rules: r, deployed: make([]bool, n), all: change{of: make([]bool, n)}, staying: change{of: make([]bool, n)}}
}

func (s *nodeState) read(n Node) error {
	clear(s.deployed)
	clear(s.all.of)
	clear(s.staying.of)
	s.all.worst, s.staying.worst = -1, -1
	if err := checkName("node", n.Name); err != nil {
		return err
	}
	for _, name := range n.Deployed {
		if i, ok := s.rules.index[name]; ok {
			s.deployed[i] = true
		}
	}
	for _, name := range n.Changed {
		i, ok := s.rules.index[name]
		switch {
		case !ok || s.rules.targets[i].ofNode:
			return fmt.Errorf("node %s: the logic book has no component %q", n.Name, name)
		case !s.deployed[i]:
			return fmt.Errorf("node %s: component %s changed, but is not deployed", n.Name, name)
		}
		s.all.add(s.rules, i)
		if !slices.Contains(n.Removed, name) {
			s.staying.add(s.rules, i)
		}
	}
	return nil
}

func (c *change) add(r *rules, target int) {
	c.of[target] = true
	c.worst = max(c.worst, r.targets[target].rank)
}

// tasks appends the tasks of the node last read.
func (s *nodeState) tasks(host string, to []Task) []Task {
	for i, t := range s.rules.targets {
		if !t.ofNode && !s.deployed[i] {
			continue
		}
		for _, c := range t.actions {
			of := &s.all
			if c.ofWhatStays {
				of = &s.staying
			}
			if of.needs(c.any) {
				to = append(to, Task{Host: host, Target: t.name, Action: c.action})
			}
		}
	}
	return to
}

// needs reports whether one of the conditions holds.
func (c *change) needs(anyOf []condition) bool {
	for _, of := range anyOf {
		if c.worst >= of.rank && c.one(of.changed) {
			return true
		}
	}
	return false
}

// one reports whether one of the targets changed; nil means any.
func (c *change) one(targets []int) bool {
	for _, i := range targets {
		if c.of[i] {
			return true
		}
	}
	return targets == nil && slices.Contains(c.of, true)
}
