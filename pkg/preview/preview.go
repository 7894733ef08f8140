package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Asker tells what upgrades are going to do. It only reads.
type Asker struct {
	// Reader reads the cluster, from a cache or not.
	Reader client.Reader
	// Live reads past the cache what a cache of the operator does not hold: pods that are
	// not the operator's, their budgets, and where the operator runs.
	Live client.Reader
	// Namespace is that of the operator.
	Namespace string
	// Clock tells the time.
	Clock func() time.Time
}

// Question is what is asked.
type Question struct {
	// Present is the gr as it is, and Wanted as it would be: its spec and its upgrade
	// annotations count. With the same in both it is what is still to be done.
	Present, Wanted *topsv1.GcuResource
	// Approved: every wave counts as approved.
	Approved bool
}

// What is told of nodes, under the names that callers know.
type (
	// Rollout is what is done node by node.
	Rollout = daemonupdater.Preview
	// Node is what is done to one.
	Node = daemonupdater.NodePreview
	// LeftNode is one that is not upgraded.
	LeftNode = daemonupdater.LeftNode
)

// Preview is what an upgrade is going to do when nothing fails.
type Preview struct {
	GcuResource string `json:"gcuResource"`
	// Only is what it is limited to, as annotation upgrade-only has it; "" for everything.
	Only string `json:"only,omitempty"`
	// Components of which something changes, in the order in which they are deployed.
	Components []Component `json:"components"`
	Rollout
}

// Ask answers a question. The error says what could not be read or planned.
func (a Asker) Ask(ctx context.Context, q Question) (*Preview, error) {
	there, err := a.deployed(ctx, q.Present)
	if err != nil {
		return nil, err
	}
	differs, err := compare(q.Present, q.Wanted, there)
	if err != nil {
		return nil, err
	}
	home, err := a.home(ctx)
	if err != nil {
		return nil, err
	}
	asked := daemonupdater.Question{GcuResource: q.Wanted.Name, Annotations: component.Carried(q.Wanted), Gone: differs.gone,
		Templates: map[string]daemonupdater.Template{}, Approved: q.Approved}
	for name, to := range differs.templates {
		asked.Templates[name] = daemonupdater.Template{Pod: to.template, Revision: to.revision}
	}
	previewer := daemonupdater.Previewer{Reader: a.Reader, Live: a.Live, Namespace: a.Namespace, Home: home, Book: upgradeplan.DefaultBook(), Clock: a.Clock}
	told, err := previewer.Preview(ctx, asked)
	if err != nil {
		return nil, err
	}
	cut, _ := daemonset.CutOf(asked.Annotations) // one that is not understood is why it is blocked
	return &Preview{GcuResource: q.Wanted.Name, Only: cut.String(), Components: counted(differs.components, told, cut), Rollout: *told}, nil
}

// CheckCut is CheckCut for the cluster of the Asker.
func (a Asker) CheckCut(ctx context.Context, gr *topsv1.GcuResource, cut *daemonset.Cut) (*daemonset.Cut, string, error) {
	return CheckCut(ctx, a.Reader, gr, cut)
}

// counted adds to components on how many nodes their pods are replaced, and those whose
// pods are replaced though their templates do not change.
func counted(components []Component, told *daemonupdater.Preview, cut *daemonset.Cut) []Component {
	nodes, outdated := map[string]int{}, map[string]bool{}
	for i := range told.Nodes {
		for _, name := range told.Nodes[i].Replaces {
			nodes[name]++
		}
		for _, name := range told.Nodes[i].Upgrades {
			outdated[name] = true
		}
	}
	list := slices.Clone(components)
	for i := range list {
		c := &list[i]
		if c.Change == Upgrade {
			c.Nodes, c.LeftOut = nodes[c.Name], !cut.HasComponent(c.Name)
		}
		delete(nodes, c.Name)
	}
	for name, n := range nodes {
		change := Restart
		if outdated[name] { // what an upgrade before has left to do
			change = Upgrade
		}
		list = append(list, Component{Name: name, Change: change, Nodes: n})
	}
	c := compared{components: list}
	c.sort()
	if c.components == nil {
		return []Component{}
	}
	return c.components
}

// deployed returns what there is of a gr, by component.
func (a Asker) deployed(ctx context.Context, gr *topsv1.GcuResource) (map[string]deployed, error) {
	labelled := client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}
	var sets appsv1.DaemonSetList
	if err := a.Reader.List(ctx, &sets, labelled); err != nil {
		return nil, fmt.Errorf("listing the DaemonSets of GcuResource %s: %w", gr.Name, err)
	}
	var kept appsv1.ControllerRevisionList
	if err := a.Reader.List(ctx, &kept, labelled, client.InNamespace(a.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the specs of GcuResource %s: %w", gr.Name, err)
	}
	specs := map[string]*topsv1.GcuResourceSpec{}
	for i := range kept.Items {
		if r := &kept.Items[i]; metav1.IsControlledBy(r, gr) {
			specs[r.Name] = specIn(r)
		}
	}
	there := map[string]deployed{}
	for i := range sets.Items {
		ds := &sets.Items[i]
		if ds.DeletionTimestamp != nil || !metav1.IsControlledBy(ds, gr) {
			continue
		}
		d := deployed{daemonSet: ds, from: specs[ds.Annotations[topsv1.AnnotationRevision]]}
		if d.from == nil { // it is not kept any more
			d.from = &gr.Spec
		}
		var err error
		if d.before, err = a.revisions(ctx, ds, specs); err != nil {
			return nil, err
		}
		there[ds.Labels[topsv1.LabelComponent]] = d
	}
	return there, nil
}

// revisions returns the specs that the revisions of a DaemonSet were made from, by hash:
// the DaemonSet controller copies the annotations of the DaemonSet to each.
func (a Asker) revisions(ctx context.Context, ds *appsv1.DaemonSet, specs map[string]*topsv1.GcuResourceSpec) (map[string]*topsv1.GcuResourceSpec, error) {
	var list appsv1.ControllerRevisionList
	if err := a.Reader.List(ctx, &list, client.InNamespace(ds.Namespace), client.MatchingLabels(ds.Spec.Selector.MatchLabels)); err != nil {
		return nil, fmt.Errorf("listing the revisions of DaemonSet %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	before := map[string]*topsv1.GcuResourceSpec{}
	for i := range list.Items {
		r := &list.Items[i]
		if spec := specs[r.Annotations[topsv1.AnnotationRevision]]; spec != nil && metav1.IsControlledBy(r, ds) {
			before[daemonset.RevisionHash(r)] = spec
		}
	}
	return before, nil
}

// specIn returns the spec that a revision of a gr holds, nil when it cannot be read.
func specIn(r *appsv1.ControllerRevision) *topsv1.GcuResourceSpec {
	var data struct {
		Spec *topsv1.GcuResourceSpec `json:"spec"`
	}
	if json.Unmarshal(r.Data.Raw, &data) != nil {
		return nil
	}
	return data.Spec
}
