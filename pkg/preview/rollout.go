package preview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// Rollout is what happens node by node if nothing fails.
type Rollout struct {
	// Blocked is why nothing would be replaced, or "".
	Blocked string `json:"blocked,omitempty"`
	// MaxUnavailable is how many nodes may be unavailable at once.
	MaxUnavailable int `json:"maxUnavailable"`
	// Total is the number of nodes that run components of the gr.
	Total int `json:"total"`
	// Nodes that are upgraded, in the order of their starts.
	Nodes []Node `json:"nodes"`
	// InFlight are the names of nodes that have been started already, sorted; they are not in Nodes.
	InFlight []string `json:"inFlight,omitempty"`
	// Left are the nodes that are not upgraded, and why, sorted by name.
	Left []LeftNode `json:"left,omitempty"`
	// Seconds is its duration at the usual pace; 0 if unknown.
	Seconds int64 `json:"seconds,omitempty"`
	// Plan has the tasks, in batches of nodes that start together.
	Plan upgradeplan.Mission `json:"plan"`
	// Planned is what the planner knows about every node that runs components of the gr, by
	// name, and UsualSeconds how long a node usually takes; 0 if unknown. A plan file is made from
	// these.
	Planned      map[string]upgradeplan.Node `json:"-"`
	UsualSeconds int64                       `json:"-"`
	// Behind has the names of those of Left that have a pod which is not at its target, whatever it waits for.
	Behind map[string]bool `json:"-"`
	// LaterNotAllowed are those of Left that now wait for something else, such as to be online, and on which the policy
	// does not allow the versions that they would get after that.
	LaterNotAllowed []LeftNode `json:"-"`
	// Allowed is how many reachable nodes have, get, or wait for a component that the policy does not allow on others.
	Allowed int `json:"-"`
	// Unfit are the Ready nodes that a new component does not fit, and Fit is how many others get it.
	Unfit []LeftNode `json:"-"`
	Fit   int        `json:"-"`
}

// Node is what happens on a node.
type Node struct {
	Name string `json:"name"`
	// Wave of the policy, or "".
	Wave string `json:"wave,omitempty"`
	// AfterSeconds is when it starts; if the usual pace is unknown, every node counts as
	// one second.
	AfterSeconds int64 `json:"afterSeconds"`
	// Disruption is the most severe one on the node.
	Disruption upgradeplan.Disruption `json:"disruption"`
	// Replaces are the components that get a new pod, in that order.
	Replaces []string `json:"replaces"`
	// Upgrades are those of Replaces that are not at their newest revision.
	Upgrades []string `json:"upgrades"`
	// Evicts are the pods that leave it, as namespace/name, and BlockedBy what blocks pods
	// from leaving.
	Evicts    []string `json:"evicts,omitempty"`
	BlockedBy string   `json:"holds,omitempty"`
}

// LeftNode is a node that is not upgraded.
type LeftNode struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Already: even without the change it is not upgraded, for the same reason.
	Already bool `json:"-"`
}

// Nothing returns a rollout without nodes: blocked for a reason, or with nothing to do if blocked is "".
func Nothing(blocked string) *Rollout {
	return &Rollout{Nodes: []Node{}, Plan: upgradeplan.Mission{}, Blocked: blocked}
}

// Blocked returns why nothing would be replaced, or "".
func Blocked(in *rollout.Input) string {
	switch {
	case in.Blocked != nil:
		return in.Blocked.Message
	case in.Settings.Strategy == daemonset.NoStrategy:
		return fmt.Sprintf("annotation %s is not set: pods are not replaced", topsv1.AnnotationUpdateStrategy)
	}
	return ""
}

// RolloutOf simulates the rollout of a group from its nodes with the decision code of
// the rollout itself. It does not include evictions, which Evict adds. With approved, every
// wave counts as approved.
func RolloutOf(s *observed.State, in rollout.Input, book *upgradeplan.LogicBook, approved bool) (*Rollout, error) {
	if approved {
		in.Policy.ApproveAll()
	}
	zones := observed.Zones{}
	var getNew []rollout.Node
	for name := range s.Nodes {
		n := s.RolloutNode(name, in.Revision, zones, in.Now)
		if len(n.Pods) > 0 {
			in.Nodes = append(in.Nodes, n)
		}
		if len(n.New) > 0 && n.Ready {
			getNew = append(getNew, n)
		}
	}
	slices.SortFunc(in.Nodes, byName)
	slices.SortFunc(getNew, byName)
	rollout.KeepPins(&in)
	outlook := rollout.Preview(in)
	r := Nothing("")
	r.Total = len(in.Nodes)
	r.MaxUnavailable, r.Seconds, r.InFlight = outlook.MaxUnavailable, int64(outlook.Took/time.Second), outlook.InFlight
	for _, v := range outlook.Left {
		// The message names a wave of a revision that may not exist yet: leave out the
		// revision.
		words := strings.ReplaceAll(v.Message, " "+in.Revision+"/", " wave ")
		r.Left = append(r.Left, LeftNode{Name: v.Node, Reason: string(v.Reason), Message: words})
	}
	r.Behind = map[string]bool{}
	for _, left := range r.Left {
		n := nodeNamed(&in, left.Name)
		r.Behind[left.Name] = slices.ContainsFunc(n.Pods, func(pod rollout.Pod) bool { return rollout.IsBehind(&in, n, &pod) })
	}
	r.countAllowed(&in)
	r.fitNew(&in, getNew)
	r.UsualSeconds, r.Planned = int64(in.Ledger.Usual/time.Second), make(map[string]upgradeplan.Node, len(in.Nodes))
	for i := range in.Nodes {
		r.Planned[in.Nodes[i].Name] = s.OperationPlan(&in, book, &in.Nodes[i])
	}
	return r, r.describe(s, &in, book, outlook.Starts)
}

// countAllowed sets Allowed and LaterNotAllowed. A node that runs only other components does not count: it says nothing about
// the versions. One that waits for something else is judged by the versions that it would get.
func (r *Rollout) countAllowed(in *rollout.Input) {
	waits, refused := map[string]rollout.Reason{}, map[string]bool{}
	for _, n := range r.Left {
		waits[n.Name] = rollout.Reason(n.Reason)
	}
	for _, n := range r.notAllowed() {
		for _, why := range rollout.Refusals(in, nodeNamed(in, n.Name)) {
			refused[why.Component] = true
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		waitsFor, waitsAtAll := waits[n.Name]
		switch waitsFor {
		case rollout.ReasonVersionNotAllowed, rollout.ReasonLeftOut, rollout.ReasonPinned:
			continue
		}
		switch why := describe(rollout.Refusals(in, n)); {
		case why != "" && waitsAtAll:
			r.LaterNotAllowed = append(r.LaterNotAllowed, LeftNode{Name: n.Name, Reason: string(rollout.ReasonVersionNotAllowed), Message: why})
		case why == "" && waitsFor != rollout.ReasonNodeOffline && runs(in, n, refused):
			r.Allowed++
		}
	}
}

// fitNew sets Unfit and Fit from the nodes that get a new component.
func (r *Rollout) fitNew(in *rollout.Input, nodes []rollout.Node) {
	refused, unfit := map[string]bool{}, map[string]bool{}
	for i := range nodes {
		unfits := rollout.RefusalsOfNew(in, &nodes[i])
		for _, why := range unfits {
			refused[why.Component] = true
		}
		if name := nodes[i].Name; len(unfits) > 0 {
			unfit[name] = true
			r.Unfit = append(r.Unfit, LeftNode{Name: name, Reason: string(rollout.ReasonVersionNotAllowed), Message: describe(unfits)})
		}
	}
	for i := range nodes {
		if runs(in, &nodes[i], refused) && !unfit[nodes[i].Name] {
			r.Fit++
		}
	}
}

// describe says why versions are refused, "" if none is.
func describe(refusals []versions.Refusal) string {
	var says []string
	for _, why := range refusals {
		says = append(says, why.String())
	}
	return strings.Join(says, "; ")
}

// runs reports whether a node has, or gets, one of some components.
func runs(in *rollout.Input, n *rollout.Node, components map[string]bool) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return components[in.Members[p.Member].Component] }) ||
		slices.ContainsFunc(n.New, func(c versions.Component) bool { return components[c.Name] })
}

func byName(a, b rollout.Node) int { return cmp.Compare(a.Name, b.Name) }

// notAllowed returns the nodes that wait because the policy does not allow the versions that they would
// get, by name.
func (r *Rollout) notAllowed() (list []LeftNode) {
	for _, n := range r.Left {
		if n.Reason == string(rollout.ReasonVersionNotAllowed) {
			list = append(list, n)
		}
	}
	return list
}

// Offline returns the names of the nodes that are not upgraded only because they are offline.
func (r *Rollout) Offline() (names []string) {
	refused := map[string]bool{}
	for _, n := range r.LaterNotAllowed {
		refused[n.Name] = true
	}
	for _, n := range r.Left {
		if n.Reason == string(rollout.ReasonNodeOffline) && !refused[n.Name] && len(r.Planned[n.Name].Changed) > 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

// describe adds the nodes in the order of their starts, and their tasks.
func (r *Rollout) describe(s *observed.State, in *rollout.Input, book *upgradeplan.LogicBook, starts []rollout.Start) error {
	var plans []upgradeplan.Node
	var batches [][]string
	for _, start := range starts {
		batches = append(batches, start.Nodes)
		for _, name := range start.Nodes {
			plan := r.Planned[name]
			plans = append(plans, plan)
			stops := stopsContainers(s.Upgrades[name])
			n := Node{Name: name, Wave: start.Wave, AfterSeconds: int64(start.After / time.Second), Disruption: book.Disruption(plan.Changed, stops)}
			n.Disruption = cmp.Or(n.Disruption, upgradeplan.ReplacePod)
			r.Nodes = append(r.Nodes, n)
		}
	}
	tasks, err := upgradeplan.Generate(*book, plans)
	if err != nil {
		return fmt.Errorf("planning the upgrade: %w", err)
	}
	if r.Plan, err = upgradeplan.Arrange(*book, tasks, batches); err != nil {
		return fmt.Errorf("planning the upgrade: %w", err)
	}
	if r.Plan == nil {
		r.Plan = upgradeplan.Mission{} // an empty list in JSON
	}
	replaces := replacedBy(r.Plan)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		unknown := unknownToBook(s, in, book, nodeNamed(in, n.Name))
		n.Replaces = slices.Concat(replaces[n.Name], unknown)
		n.Upgrades = slices.Concat(plans[i].Changed, unknown)
	}
	return nil
}

// replacedBy returns the components that a plan replaces, by node, in order.
func replacedBy(plan upgradeplan.Mission) map[string][]string {
	replaces := map[string][]string{}
	for t := range plan.All() {
		if t.Action == upgradeplan.ActionReplace {
			replaces[t.Host] = append(replaces[t.Host], t.Target)
		}
	}
	return replaces
}

// unknownToBook returns the components of a node that are replaced without a task.
func unknownToBook(s *observed.State, in *rollout.Input, book *upgradeplan.LogicBook, node *rollout.Node) []string {
	var names []string
	for i := range node.Pods {
		component := s.Members[node.Pods[i].Member].Component()
		if book.Disruption([]string{component}, false) == "" && rollout.ToReplace(in, node, &node.Pods[i]) {
			names = append(names, component)
		}
	}
	return names
}

// stopsContainers reports whether a toolkit upgrade would restart the container runtime of
// a node in a way that stops all containers.
func stopsContainers(upgrade *topsv1.NodeUpgrade) bool {
	return upgrade != nil && upgrade.Status.Host != nil && operation.StopsContainers(upgrade.Status.Host.Runtime, "")
}

func nodeNamed(in *rollout.Input, name string) *rollout.Node {
	i, _ := slices.BinarySearchFunc(in.Nodes, name, func(n rollout.Node, name string) int { return cmp.Compare(n.Name, name) })
	return &in.Nodes[i]
}
