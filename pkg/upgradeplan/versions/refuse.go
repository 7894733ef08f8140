package versions

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/labels"
)

// Component is a component on a node.
type Component struct {
	Name string
	// Has is its present version, "" if it does not run on the node; Gets is its version after the upgrade, ""
	// if it is removed. For a component that does not change both are equal.
	Has, Gets string
	// Changes: its pod is replaced.
	Changes bool
}

// Node is a node before and after an upgrade.
type Node struct {
	Kernel     string
	Labels     map[string]string
	Components []Component
}

// component returns a component that a node has after the upgrade, or that changes; nil for none.
func (n *Node) component(name string) *Component {
	for i := range n.Components {
		if c := &n.Components[i]; c.Name == name && (c.Gets != "" || c.Changes) {
			return c
		}
	}
	return nil
}

// Refusal is why a node may not get the wanted versions.
type Refusal struct {
	// Rule is the field of the policy that refuses it.
	Rule string
	// Component that the rule is about, with its version before and after.
	Component, From, To string
	// Cause says why.
	Cause string
	// Path is the versions through which allowed steps lead from From to To, both included, up only or
	// down only; nil if none do, or if the rule is not about steps.
	Path []string
}

// String returns the refusal in a sentence.
func (r Refusal) String() string {
	says := fmt.Sprintf("%s %s > %s: %s (%s)", r.Component, shown(r.From), shown(r.To), r.Cause, r.Rule)
	if len(r.Path) > 0 {
		says += "; the allowed path is " + strings.Join(r.Path, " > ")
	}
	return says
}

// Refuse returns why a node may not get the wanted versions, in the order of the rules; nil if it may. A
// rule applies only if a component that it names changes.
func (p *Policy) Refuse(n *Node) []Refusal {
	if p == nil {
		return nil
	}
	var list []Refusal
	for i := range n.Components {
		if r := p.refuseStep(&n.Components[i]); r != nil {
			list = append(list, *r)
		}
	}
	for i := range p.fits {
		if r := p.fits[i].refuse(n); r != nil {
			list = append(list, *r)
		}
	}
	return list
}

// refuseStep returns why the change of a component is not allowed, nil if it is.
func (p *Policy) refuseStep(c *Component) *Refusal {
	steps := p.stepsOf(c.Name)
	if len(steps) == 0 || !c.Changes || c.Has == "" || c.Gets == "" {
		return nil
	}
	r := &Refusal{Rule: "versions.steps", Component: c.Name, From: c.Has, To: c.Gets}
	from, comparable := parse(c.Has)
	to, also := parse(c.Gets)
	switch {
	case !comparable:
		r.Cause = incomparable(c.Name, c.Has)
	case !also:
		r.Cause = incomparable(c.Name, c.Gets)
	case from.EQ(to) || isStep(steps, from, to):
		return nil
	default:
		r.Cause, r.Path = "no step allows it", p.path(change{c.Name, c.Has, c.Gets}, from, to)
		if r.Path == nil {
			r.Cause = "no step allows it, and no steps lead there"
		}
	}
	return r
}

func (p *Policy) stepsOf(component string) (list []step) {
	for i := range p.steps {
		if p.steps[i].component == component {
			list = append(list, p.steps[i])
		}
	}
	return list
}

// path returns the shortest path of a change by steps, nil if there is none. Each version in between is
// described as the range of a step with a version as an example, because it is not known which versions exist.
func (p *Policy) path(of change, from, to semver.Version) []string {
	if known, is := p.paths[of]; is {
		return known
	}
	steps := p.stepsOf(of.component)
	way := shortest(steps, from, to)
	var path []string
	for i, v := range way {
		switch i {
		case 0:
			path = append(path, of.from)
		case len(way) - 1:
			path = append(path, of.to)
		default:
			path = append(path, describe(steps, way[i-1], v))
		}
	}
	p.paths[of] = path
	return path
}

// refuse returns why a node does not fit, nil if it does.
func (f *fit) refuse(n *Node) *Refusal {
	c := n.component(f.component)
	if c == nil || c.Gets == "" || !f.concerns(n, c) {
		return nil
	}
	r := &Refusal{Rule: fmt.Sprintf("versions.fit[%d]", f.index), Component: c.Name, From: c.Has, To: c.Gets}
	if f.version.in != nil {
		v, ok := parse(c.Gets)
		if !ok {
			r.Cause = incomparable(c.Name, c.Gets)
			return r
		}
		if !f.version.contains(v) {
			return nil
		}
	}
	if r.Cause = f.lacks(n); r.Cause == "" {
		return nil
	}
	return r
}

// concerns reports whether an upgrade changes a component that the rule names.
func (f *fit) concerns(n *Node, c *Component) bool {
	if c.Changes {
		return true
	}
	for _, r := range f.components {
		if other := n.component(r.component); other != nil && other.Changes {
			return true
		}
	}
	return false
}

// lacks returns which requirement of the rule a node does not meet, "" for none.
func (f *fit) lacks(n *Node) string {
	for _, r := range f.components {
		if why := r.lacks(n.component(r.component)); why != "" {
			return why
		}
	}
	if f.kernel.in != nil {
		if v, ok := parseKernel(n.Kernel); !ok {
			return fmt.Sprintf("it requires kernel %s, and kernel %q of the node cannot be compared", f.kernel.text, n.Kernel)
		} else if !f.kernel.contains(v) {
			return fmt.Sprintf("it requires kernel %s, and the node has %s", f.kernel.text, n.Kernel)
		}
	}
	if f.nodes != nil && !f.nodes.Matches(labels.Set(n.Labels)) {
		return fmt.Sprintf("it requires node labels %s", f.nodeSelector)
	}
	return ""
}

// lacks returns why a component does not meet the requirement, "" if it does; c is nil if the node does not have it.
func (r *requirement) lacks(c *Component) string {
	if c == nil || c.Gets == "" {
		return fmt.Sprintf("it requires %s %s, which the gr does not deploy on the node", r.component, r.version.text)
	}
	v, ok := parse(c.Gets)
	switch {
	case !ok:
		return incomparable(c.Name, c.Gets)
	case !r.version.contains(v):
		return fmt.Sprintf("it requires %s %s, but the node would have %s", r.component, r.version.text, c.Gets)
	}
	return ""
}

// incomparable says that a version cannot be compared.
func incomparable(component, version string) string {
	if version == "" {
		return fmt.Sprintf("the image of %s has no tag, so its version cannot be compared: give it one such as 1.6.2", component)
	}
	return fmt.Sprintf("version %s of %s cannot be compared: give it a version such as 1.6.2", version, component)
}
