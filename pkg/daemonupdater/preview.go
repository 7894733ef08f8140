package daemonupdater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Previewer tells what an upgrade of a GcuResource is going to do. It decides with
// what the rollout itself decides with, and writes nothing.
type Previewer struct {
	// Reader reads the cluster, from a cache or not.
	Reader client.Reader
	// Namespace holds the DaemonRollouts of GcuResources.
	Namespace string
	// Book is the logic book of the manager.
	Book upgradeplan.Book
	// Clock tells the time.
	Clock func() time.Time
}

// Question is what a preview is about.
type Question struct {
	// GcuResource that is upgraded.
	GcuResource string
	// Changed are components that would get another template, besides what is outdated
	// already. One of which there is no DaemonSet is deployed at once, and not upgraded.
	Changed []string
	// Cut is what the upgrade is limited to; nil: what is annotated.
	Cut *daemonset.Cut
	// Approved: every wave counts as approved.
	Approved bool
}

// Preview is what an upgrade is going to do when nothing fails.
type Preview struct {
	// Blocked says why nothing at all would be replaced, "" when that is not so.
	Blocked string `json:"blocked,omitempty"`
	// Limit is how many nodes may be unavailable at once.
	Limit int `json:"maxUnavailable"`
	// Nodes that are upgraded, in the order of their starts.
	Nodes []NodePreview `json:"nodes"`
	// Left are the nodes that are not, and why.
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
	// Evicts are the pods that leave it, and Holds says what keeps one from leaving.
	Evicts []string `json:"evicts,omitempty"`
	Holds  string   `json:"holds,omitempty"`
}

// LeftNode is a node that is not upgraded.
type LeftNode struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Preview answers a question. The error is NotFound when the GcuResource has no
// DaemonSet, or says what could not be read or planned.
func (p Previewer) Preview(ctx context.Context, q Question) (*Preview, error) {
	o, in, pods, err := p.observe(ctx, q)
	if err != nil {
		return nil, err
	}
	if in.Blocked != nil {
		return &Preview{Blocked: in.Blocked.Message}, nil
	}
	if in.Settings.Strategy == daemonset.NoStrategy {
		return &Preview{Blocked: fmt.Sprintf("there is no annotation %s: nobody replaces pods", topsv1.AnnotationUpdateStrategy)}, nil
	}
	outlook := rollout.Preview(*in)
	out := &Preview{Limit: outlook.Limit, Seconds: int64(outlook.Took / time.Second)}
	for _, v := range outlook.Left {
		out.Left = append(out.Left, LeftNode{Name: v.Node, Reason: string(v.Reason), Message: v.Message})
	}
	return out, p.describe(o, in, outlook, pods, out)
}

// describe adds the tasks of each node, and who leaves it.
func (p Previewer) describe(o *observation, in *rollout.Input, outlook rollout.Outlook, pods map[string][]corev1.Pod, out *Preview) error {
	policy, err := drainPolicyOf(o)
	if err != nil {
		return err
	}
	var plans []upgradeplan.Node
	var batches [][]string
	for _, step := range outlook.Steps {
		batches = append(batches, step.Nodes)
		for _, name := range step.Nodes {
			plan := planOf(o, in, &p.Book, nodeNamed(in, name))
			plans = append(plans, plan)
			n := NodePreview{Name: name, Wave: step.Wave, AfterSeconds: int64(step.After / time.Second), Disruption: p.Book.Disruption(plan.Changed, false)}
			if n.Disruption != upgradeplan.ReplacePod && n.Disruption != "" {
				n.Evicts, n.Holds = evicted(name, pods[name], policy, in.Now)
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
	return nil
}

func drainPolicyOf(o *observation) (drain.Policy, error) {
	var spec *topsv1.DrainPolicy
	if o.policy != nil {
		spec = o.policy.Spec.Drain
	}
	return drain.PolicyOf(spec)
}

// evicted tells which pods leave a node that is drained, and what holds the others.
func evicted(node string, pods []corev1.Pod, policy drain.Policy, now time.Time) (leave []string, holds string) {
	evict, r := drain.Decide(drain.Facts{Node: node, NodeReady: true, Pods: pods}, policy, nil, now, now)
	for _, pod := range evict {
		leave = append(leave, pod.Namespace+"/"+pod.Name)
	}
	return leave, r.Message()
}

func nodeNamed(in *rollout.Input, name string) *rollout.Node {
	i := slices.IndexFunc(in.Nodes, func(n rollout.Node) bool { return n.Name == name })
	return &in.Nodes[i]
}

// observe reads what the rollout of a GcuResource reads, with the targets of the
// question, and all pods by node.
func (p Previewer) observe(ctx context.Context, q Question) (*observation, *rollout.Input, map[string][]corev1.Pod, error) {
	g := Group{Kind: kindGcuResource, Name: q.GcuResource}
	o := &observation{group: g}
	daemonSets, err := daemonSetsOf(ctx, p.Reader, g)
	if err == nil && len(daemonSets) == 0 {
		err = apierrors.NewNotFound(topsv1.GroupVersion.WithResource("gcuresources").GroupResource(), q.GcuResource)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	for _, ds := range daemonSets {
		o.members = append(o.members, member{daemonSet: annotatedAs(ds, q)})
	}
	o.rollout = newRollout(o, g.rolloutKey(p.Namespace))
	err = p.Reader.Get(ctx, client.ObjectKeyFromObject(o.rollout), o.rollout)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, nil, fmt.Errorf("getting DaemonRollout %s: %w", o.rollout.Name, err)
	}
	if o.policy, err = namedPolicy(ctx, p.Reader, o); err != nil {
		return nil, nil, nil, err
	}
	return p.look(ctx, o, q)
}

// annotatedAs returns a DaemonSet annotated as the question has it.
func annotatedAs(ds *appsv1.DaemonSet, q Question) *appsv1.DaemonSet {
	if q.Cut == nil {
		return ds
	}
	ds = ds.DeepCopy()
	delete(ds.Annotations, topsv1.AnnotationUpgradeOnly)
	if only := q.Cut.String(); only != "" {
		metav1.SetMetaDataAnnotation(&ds.ObjectMeta, topsv1.AnnotationUpgradeOnly, only)
	}
	return ds
}

// changedTarget stands for the revision of a template that is not there yet.
const changedTarget = "preview"

// look reads the fleet.
func (p Previewer) look(ctx context.Context, o *observation, q Question) (*observation, *rollout.Input, map[string][]corev1.Pod, error) {
	var nodes corev1.NodeList
	var upgrades topsv1.NodeUpgradeList
	var all corev1.PodList
	var revisions appsv1.ControllerRevisionList
	if err := errors.Join(p.Reader.List(ctx, &nodes), p.Reader.List(ctx, &upgrades), p.Reader.List(ctx, &all),
		p.Reader.List(ctx, &revisions)); err != nil {
		return nil, nil, nil, fmt.Errorf("reading the fleet: %w", err)
	}
	pods, byNode := make([][]*corev1.Pod, len(o.members)), map[string][]corev1.Pod{}
	for i := range all.Items {
		pod := &all.Items[i]
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], *pod)
		for m := range o.members {
			if metav1.IsControlledBy(pod, o.members[m].daemonSet) {
				pods[m] = append(pods[m], pod)
			}
		}
	}
	for m := range o.members {
		for i := range revisions.Items {
			if metav1.IsControlledBy(&revisions.Items[i], o.members[m].daemonSet) {
				o.members[m].revisions = append(o.members[m].revisions, &revisions.Items[i])
			}
		}
	}
	in := inputOf(o, &p.Book, rollout.DefaultDeadlines, p.Clock())
	for m := range o.members {
		if slices.Contains(q.Changed, o.members[m].component()) {
			in.Members[m].Target = changedTarget
			in.Revision = changedTarget
		}
	}
	if q.Approved {
		in.Policy.Approved = map[string]bool{}
		for _, wave := range in.Policy.Waves {
			in.Policy.Approved[wave.Name] = true
		}
	}
	known := zones{}
	found := foundOf(o, nodes.Items, pods, upgrades.Items)
	for _, f := range found {
		if f.node == nil {
			continue
		}
		if n := nodeOf(o, f, in.Revision, known, in.Now); len(n.Pods) > 0 {
			in.Nodes = append(in.Nodes, n)
		}
	}
	slices.SortFunc(in.Nodes, func(a, b rollout.Node) int { return cmp.Compare(a.Name, b.Name) })
	return o, &in, byNode, nil
}
