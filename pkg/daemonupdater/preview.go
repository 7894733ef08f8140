package daemonupdater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Previewer tells what an upgrade of a GcuResource is going to do. It decides with
// what the rollout itself decides with, and writes nothing.
type Previewer struct {
	// Reader reads the cluster, from a cache or not.
	Reader client.Reader
	// Live reads pods that are not the operator's, past a cache that holds little of
	// them, and their budgets.
	Live client.Reader
	// Namespace holds the DaemonRollouts of GcuResources.
	Namespace string
	// Home is the node that the operator runs on, which comes last; "" when it is not known.
	Home string
	// Book is the logic book of the manager.
	Book upgradeplan.Book
	// Clock tells the time.
	Clock func() time.Time
}

// Question is what a preview is about: the GcuResource as it would be.
type Question struct {
	// GcuResource by name.
	GcuResource string
	// Annotations are the upgrade annotations it would have; nil: those that its
	// DaemonSets have.
	Annotations map[string]string
	// Templates are those that components would get, besides what is outdated already. A
	// component of which there is no DaemonSet is deployed at once, and not upgraded.
	Templates map[string]Template
	// Gone are components whose DaemonSets would be deleted.
	Gone []string
	// Approved: every wave counts as approved.
	Approved bool
}

// Template is what the pods of a component would be made from.
type Template struct {
	Pod corev1.PodTemplateSpec
	// Revision is the hash of the ControllerRevision that has this template already, ""
	// when there is none: then no pod has it.
	Revision string
}

// Preview is what an upgrade is going to do when nothing fails.
type Preview struct {
	// Blocked says why nothing at all would be replaced, "" when that is not so.
	Blocked string `json:"blocked,omitempty"`
	// Limit is how many nodes may be unavailable at once.
	Limit int `json:"maxUnavailable"`
	// Total is how many nodes there are that run components of the gr.
	Total int `json:"total"`
	// Nodes that are upgraded, in the order of their starts.
	Nodes []NodePreview `json:"nodes"`
	// InFlight are nodes that were started before, by name; they are not among the others.
	InFlight []string `json:"inFlight,omitempty"`
	// Left are the nodes that are not, and why, by name.
	Left []LeftNode `json:"left,omitempty"`
	// Seconds it takes at the usual pace; 0 when that is not known.
	Seconds int64 `json:"seconds,omitempty"`
	// Plan has the tasks, in batches of nodes that start together.
	Plan upgradeplan.Mission `json:"plan"`
}

// NodePreview is what is done to a node.
type NodePreview struct {
	Name string `json:"name"`
	// Wave of the policy, "" for none.
	Wave string `json:"wave,omitempty"`
	// AfterSeconds is when it starts; where the usual pace is not known every node
	// counts as one second.
	AfterSeconds int64 `json:"afterSeconds"`
	// Disruption is the worst that is done to it.
	Disruption upgradeplan.Disruption `json:"disruption"`
	// Replaces are the components that get a new pod, in the order in which they do.
	Replaces []string `json:"replaces"`
	// Upgrades are those of them that have another revision than their newest.
	Upgrades []string `json:"upgrades"`
	// Evicts are the pods that leave it, as namespace/name, and Holds says what keeps
	// one from leaving.
	Evicts []string `json:"evicts,omitempty"`
	Holds  string   `json:"holds,omitempty"`
}

// LeftNode is a node that is not upgraded.
type LeftNode struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Preview answers a question. Of a GcuResource that has no DaemonSets nothing is
// upgraded. The error says what could not be read or planned.
func (p Previewer) Preview(ctx context.Context, q Question) (*Preview, error) {
	out := &Preview{Nodes: []NodePreview{}, Plan: upgradeplan.Mission{}}
	o, err := p.observe(ctx, q)
	if err != nil || len(o.members) == 0 {
		return out, err
	}
	in := inputOf(o, &p.Book, rollout.DefaultDeadlines, p.Clock())
	switch {
	case in.Blocked != nil:
		out.Blocked = in.Blocked.Message
		return out, nil
	case in.Settings.Strategy == daemonset.NoStrategy:
		out.Blocked = fmt.Sprintf("annotation %s is not set: pods are not replaced", topsv1.AnnotationUpdateStrategy)
		return out, nil
	}
	if q.Approved {
		approveAll(&in.Policy)
	}
	seen, err := p.look(ctx, o, &in)
	if err != nil {
		return nil, err
	}
	outlook := rollout.Preview(in)
	out.Total = len(in.Nodes)
	out.Limit, out.Seconds, out.InFlight = outlook.Limit, int64(outlook.Took/time.Second), outlook.InFlight
	for _, v := range outlook.Left {
		// What is approved is a wave of a revision, which may not be there yet.
		words := strings.ReplaceAll(v.Message, " "+in.Revision+"/", " wave ")
		out.Left = append(out.Left, LeftNode{Name: v.Node, Reason: string(v.Reason), Message: words})
	}
	return out, p.describe(ctx, o, &in, outlook, seen, out)
}

func approveAll(policy *rollout.Policy) {
	policy.Approved = map[string]bool{}
	for _, wave := range policy.Waves {
		policy.Approved[wave.Name] = true
	}
}

// observe reads what the rollout of a GcuResource reads, all but its nodes, as the
// question has it.
func (p Previewer) observe(ctx context.Context, q Question) (*observation, error) {
	g := Group{Kind: kindGcuResource, Name: q.GcuResource}
	o := &observation{group: g, home: p.Home}
	daemonSets, err := daemonSetsOf(ctx, p.Reader, g)
	if err != nil {
		return o, err
	}
	for _, ds := range daemonSets {
		m := foreseen(ds, q)
		if slices.Contains(q.Gone, m.component()) {
			continue
		}
		if m.revisions, err = revisionsOfDaemonSet(ctx, p.Reader, ds); err != nil {
			return o, err
		}
		o.members = append(o.members, m)
	}
	if len(o.members) == 0 {
		return o, nil
	}
	o.rollout = newRollout(o, g.rolloutKey(p.Namespace))
	err = p.Reader.Get(ctx, client.ObjectKeyFromObject(o.rollout), o.rollout)
	if client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("getting DaemonRollout %s: %w", o.rollout.Name, err)
	}
	o.policy, err = namedPolicy(ctx, p.Reader, o)
	return o, err
}

// notThere stands for the hash of a revision that is not there yet.
const notThere = "preview"

// foreseen is a DaemonSet as the question has it.
func foreseen(ds *appsv1.DaemonSet, q Question) member {
	m := member{daemonSet: ds.DeepCopy()}
	if q.Annotations != nil {
		if m.daemonSet.Annotations == nil {
			m.daemonSet.Annotations = map[string]string{}
		}
		for _, key := range topsv1.UpgradeAnnotations {
			delete(m.daemonSet.Annotations, key)
		}
		maps.Copy(m.daemonSet.Annotations, q.Annotations)
	}
	if t, ok := q.Templates[m.component()]; ok {
		m.daemonSet.Spec.Template, m.foreseen = t.Pod, cmp.Or(t.Revision, notThere)
	}
	return m
}

func revisionsOfDaemonSet(ctx context.Context, r client.Reader, ds *appsv1.DaemonSet) ([]*appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(ds.Namespace), client.MatchingLabels(ds.Spec.Selector.MatchLabels), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions of DaemonSet %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	return pointers(list.Items, func(c *appsv1.ControllerRevision) string { return c.Name }), nil
}

// look reads the nodes into the input, and returns what there is of each.
func (p Previewer) look(ctx context.Context, o *observation, in *rollout.Input) (map[string]*found, error) {
	var nodes corev1.NodeList
	var upgrades topsv1.NodeUpgradeList
	if err := errors.Join(p.Reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy), p.Reader.List(ctx, &upgrades, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("reading the fleet: %w", err)
	}
	pods := make([][]*corev1.Pod, len(o.members))
	for i, m := range o.members {
		var err error
		if pods[i], err = podsOfDaemonSet(ctx, p.Reader, m.daemonSet); err != nil {
			return nil, err
		}
	}
	known := zones{}
	all := foundOf(o, nodes.Items, pods, upgrades.Items)
	for _, f := range all {
		if f.node == nil {
			continue
		}
		if n := nodeOf(o, f, in.Revision, known, in.Now); len(n.Pods) > 0 {
			in.Nodes = append(in.Nodes, n)
		}
	}
	slices.SortFunc(in.Nodes, func(a, b rollout.Node) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// describe adds the tasks of each node, and who leaves it.
func (p Previewer) describe(ctx context.Context, o *observation, in *rollout.Input, outlook rollout.Outlook, seen map[string]*found, out *Preview) error {
	var plans []upgradeplan.Node
	var batches [][]string
	empty := map[string]*found{}
	for _, step := range outlook.Steps {
		batches = append(batches, step.Nodes)
		for _, name := range step.Nodes {
			plan := planOf(o, in, &p.Book, nodeNamed(in, name))
			plans = append(plans, plan)
			stops := stopsContainers(seen[name].upgrade)
			n := NodePreview{Name: name, Wave: step.Wave, AfterSeconds: int64(step.After / time.Second), Disruption: p.Book.Disruption(plan.Changed, stops)}
			n.Disruption = cmp.Or(n.Disruption, upgradeplan.ReplacePod)
			if n.Disruption != upgradeplan.ReplacePod {
				empty[name] = seen[name]
			}
			out.Nodes = append(out.Nodes, n)
		}
	}
	tasks, err := upgradeplan.Generate(p.Book, plans)
	if err != nil {
		return fmt.Errorf("planning the upgrade: %w", err)
	}
	if out.Plan, err = upgradeplan.Arrange(p.Book, tasks, batches); err != nil {
		return fmt.Errorf("planning the upgrade: %w", err)
	}
	if out.Plan == nil {
		out.Plan = upgradeplan.Mission{} // an empty list in JSON
	}
	replaces := replacedBy(out.Plan)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		unknown := unknownToBook(o, in, &p.Book, nodeNamed(in, n.Name))
		n.Replaces = slices.Concat(replaces[n.Name], unknown)
		n.Upgrades = slices.Concat(plans[i].Changed, unknown)
	}
	return p.drain(ctx, o, in.Now, empty, out.Nodes)
}

// replacedBy are the components that a plan replaces, by node, in order.
func replacedBy(plan upgradeplan.Mission) map[string][]string {
	replaces := map[string][]string{}
	for t := range plan.All() {
		if t.Action == upgradeplan.ActionReplace {
			replaces[t.Host] = append(replaces[t.Host], t.Target)
		}
	}
	return replaces
}

// unknownToBook are the components of a node that are replaced without a task.
func unknownToBook(o *observation, in *rollout.Input, book *upgradeplan.Book, node *rollout.Node) []string {
	var names []string
	for i := range node.Pods {
		component := o.members[node.Pods[i].Member].component()
		if book.Disruption([]string{component}, false) == "" && rollout.ToReplace(in, node, &node.Pods[i]) {
			names = append(names, component)
		}
	}
	return names
}

// stopsContainers reports whether the container runtime of a node would be restarted for
// a toolkit, and all containers with it.
func stopsContainers(upgrade *topsv1.NodeUpgrade) bool {
	return upgrade != nil && upgrade.Status.Host != nil && operation.StopsContainers(upgrade.Status.Host.Runtime, "")
}

func nodeNamed(in *rollout.Input, name string) *rollout.Node {
	i, _ := slices.BinarySearchFunc(in.Nodes, name, func(n rollout.Node, name string) int { return cmp.Compare(n.Name, name) })
	return &in.Nodes[i]
}
