package preview

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Change is what becomes of a component.
type Change string

// Changes of a component.
const (
	// Upgrade: its pods are replaced node by node.
	Upgrade Change = "Upgrade"
	// Restart: it stays as it is, and its pods are replaced with those of another one that
	// it depends on.
	Restart Change = "Restart"
	// Deploy: it was not there and is deployed at once, on every node, when what comes
	// before it runs.
	Deploy Change = "Deploy"
	// Delete: it is not asked for any more and is deleted at once, on every node.
	Delete Change = "Delete"
	// Redeploy: its workload has another name or namespace, so it is deleted at once and
	// then deployed, on every node.
	Redeploy Change = "Redeploy"
	// Update: Kubernetes replaces its pods, which do not run on every node, at once.
	Update Change = "Update"
)

// AtOnce reports whether a change does not wait for budget, waves and cut.
func (c Change) AtOnce() bool { return c != Upgrade && c != Restart }

// Component is one of which something changes.
type Component struct {
	// Name is its key in the spec.
	Name   string `json:"name"`
	Change Change `json:"change"`
	// Nodes on which its pod is replaced, of a change that is not at once.
	Nodes int `json:"nodes"`
	// LeftOut: the upgrade is limited to other components.
	LeftOut bool `json:"leftOut,omitempty"`
	// Images that its pods get instead of others.
	Images []Image `json:"images,omitempty"`
}

// Image is a container that gets another image.
type Image struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// deployed is a DaemonSet of the gr with the spec that it was made from.
type deployed struct {
	daemonSet *appsv1.DaemonSet
	from      *topsv1.GcuResourceSpec
	// before are its revisions by hash, with the specs that they were made from.
	before map[string]*topsv1.GcuResourceSpec
}

// compared is what differs between a gr and what there is of it.
type compared struct {
	components []Component
	// templates that components would get, gone those whose DaemonSet would be deleted.
	templates map[string]revised
	gone      []string
}

// revised is another template, with the hash of the revision that has it already.
type revised struct {
	template corev1.PodTemplateSpec
	revision string
}

// compare says what becomes of each component when a gr gets the wanted form. It is pure.
func compare(present, wanted *topsv1.GcuResource, there map[string]deployed) (*compared, error) {
	was, err := rendered(present, &present.Spec)
	if err != nil {
		return nil, err
	}
	is, err := rendered(wanted, &wanted.Spec)
	if err != nil {
		return nil, err
	}
	c := &compared{templates: map[string]revised{}}
	for name := range there {
		if is[name] == nil {
			c.add(name, Delete)
		}
	}
	for name, r := range is {
		if r.PerNode != nil {
			err = c.perNode(wanted, r, there)
		} else {
			c.elsewhere(r, was[name])
		}
		if err != nil {
			return nil, err
		}
	}
	for name, r := range was {
		if is[name] == nil && r.PerNode == nil {
			c.add(name, Delete)
		}
	}
	c.sort()
	return c, nil
}

// perNode compares a component that runs on nodes with its DaemonSet.
func (c *compared) perNode(wanted *topsv1.GcuResource, r *component.Rendered, there map[string]deployed) error {
	d, exists := there[r.Name]
	switch {
	case !exists:
		c.add(r.Name, Deploy)
		return nil
	case d.daemonSet.Namespace != r.PerNode.Namespace || d.daemonSet.Name != r.PerNode.Name:
		c.add(r.Name, Redeploy)
		return nil
	}
	template := r.PerNode.Spec.Template
	before, err := templateOf(wanted, d.from, r.Name)
	if err != nil || before != nil && equality.Semantic.DeepEqual(*before, template) {
		return err
	}
	to := revised{template: template}
	for hash, spec := range d.before {
		earlier, err := templateOf(wanted, spec, r.Name)
		if err != nil {
			return err
		}
		if earlier != nil && equality.Semantic.DeepEqual(*earlier, template) {
			to.revision = max(to.revision, hash)
		}
	}
	c.templates[r.Name] = to
	c.components = append(c.components, Component{Name: r.Name, Change: Upgrade, Images: images(before, &template)})
	return nil
}

// elsewhere compares a component that does not run on every node with how it was asked for.
func (c *compared) elsewhere(is, was *component.Rendered) {
	switch {
	case was == nil:
		c.add(is.Name, Deploy)
	case !equality.Semantic.DeepEqual(podTemplates(was), podTemplates(is)):
		c.add(is.Name, Update)
	}
}

func (c *compared) add(name string, change Change) {
	c.components = append(c.components, Component{Name: name, Change: change})
	if change == Delete || change == Redeploy {
		c.gone = append(c.gone, name)
	}
}

// sort puts the components in the order in which they are deployed.
func (c *compared) sort() {
	slices.SortFunc(c.components, func(a, b Component) int {
		return cmp.Or(cmp.Compare(component.Place(a.Name), component.Place(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(c.gone)
}

// rendered are the components of a gr with a spec, by name.
func rendered(gr *topsv1.GcuResource, spec *topsv1.GcuResourceSpec) (map[string]*component.Rendered, error) {
	with := gr.DeepCopy()
	with.Spec = *spec
	list, err := component.Render(with, "")
	if err != nil {
		return nil, err
	}
	byName := map[string]*component.Rendered{}
	for i := range list {
		byName[list[i].Name] = &list[i]
	}
	return byName, nil
}

// templateOf is what a spec makes the pods of a component from, nil when it does not
// ask for it.
func templateOf(gr *topsv1.GcuResource, spec *topsv1.GcuResourceSpec, name string) (*corev1.PodTemplateSpec, error) {
	all, err := rendered(gr, spec)
	if err != nil || all[name] == nil || all[name].PerNode == nil {
		return nil, err
	}
	return &all[name].PerNode.Spec.Template, nil
}

// podTemplates are those of the workloads of a component.
func podTemplates(r *component.Rendered) map[component.Ref]any {
	templates := map[component.Ref]any{}
	for _, d := range r.Objects {
		if d.Ref.Workload() && !d.Ref.MadeOnce() {
			templates[d.Ref], _, _ = unstructured.NestedFieldNoCopy(d.Object.Object, "spec", "template")
		}
	}
	return templates
}

// images are those of containers of the same name that differ.
func images(from, to *corev1.PodTemplateSpec) []Image {
	if from == nil {
		return nil
	}
	was := map[string]string{}
	for _, c := range slices.Concat(from.Spec.InitContainers, from.Spec.Containers) {
		was[c.Name] = c.Image
	}
	var list []Image
	for _, c := range slices.Concat(to.Spec.InitContainers, to.Spec.Containers) {
		i := Image{From: was[c.Name], To: c.Image}
		if i.From != "" && i.From != i.To && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list
}
