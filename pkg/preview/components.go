package preview

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Change is what happens to a component.
type Change string

// Changes of a component.
const (
	// Upgrade: its pods are replaced node by node.
	Upgrade Change = "Upgrade"
	// Restart: it is unchanged, but its pods are replaced together with the pods of a component that
	// it depends on.
	Restart Change = "Restart"
	// Deploy: it is new, and deployed at once on every node when the components before it
	// are running.
	Deploy Change = "Deploy"
	// Remove: it was removed from the spec, and its pods leave node by node.
	Remove Change = "Remove"
	// Rename: its workload gets another name or namespace, and its pods leave node by node, each
	// before the one under the other name starts.
	Rename Change = "Rename"
	// Delete: it was removed from the spec and is deleted at once with all its pods, because it is not a
	// DaemonSet or the gr has no strategy.
	Delete Change = "Delete"
	// Redeploy: its workload gets another name or namespace, and the gr has no strategy, so it is
	// deleted at once on every node, and then deployed.
	Redeploy Change = "Redeploy"
	// Update: its pods do not run on every node; Kubernetes replaces them at once.
	Update Change = "Update"
)

// AtOnce reports whether a change ignores budget, waves and limit.
func (c Change) AtOnce() bool { return c != Restart && !c.replacesPods() }

// replacesPods reports whether pods of the component are replaced, or removed, node by node.
func (c Change) replacesPods() bool { return c == Upgrade || c == Remove || c == Rename }

// Component is a component that changes.
type Component struct {
	// Name is its key in the spec.
	Name   string `json:"name"`
	Change Change `json:"change"`
	// Nodes is on how many nodes its pod is replaced; 0 for a change at once.
	Nodes int `json:"nodes"`
	// LeftOut is true if the upgrade is limited to other components.
	LeftOut bool `json:"leftOut,omitempty"`
	// Images that change.
	Images []Image `json:"images,omitempty"`
}

// Image is a container whose image changes.
type Image struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// deployed is a DaemonSet of the gr with the spec that it was made from.
type deployed struct {
	daemonSet *appsv1.DaemonSet
	from      *topsv1.GcuResourceSpec
	// before maps the hashes of its revisions to the specs that they were made from.
	before map[string]*topsv1.GcuResourceSpec
}

// deployedOf returns the deployed DaemonSets of a gr, by component. specs are its kept specs by
// the revision name in annotations: the DaemonSet controller copies the annotations of a
// DaemonSet to each of its revisions.
func deployedOf(gr *topsv1.GcuResource, members []observed.Member, specs map[string]*topsv1.GcuResourceSpec) map[string]deployed {
	there := map[string]deployed{}
	for _, m := range members {
		if !daemonset.IsOf(m.DaemonSet, gr) || daemonset.IsLeaving(m.DaemonSet) {
			continue
		}
		d := deployed{daemonSet: m.DaemonSet, from: specs[m.DaemonSet.Annotations[topsv1.AnnotationRevision]], before: map[string]*topsv1.GcuResourceSpec{}}
		if d.from == nil { // no longer kept
			d.from = &gr.Spec
		}
		for _, r := range m.Revisions {
			if spec := specs[r.Annotations[topsv1.AnnotationRevision]]; spec != nil && metav1.IsControlledBy(r, m.DaemonSet) {
				d.before[daemonset.RevisionHash(r)] = spec
			}
		}
		there[m.DaemonSet.Labels[topsv1.LabelComponent]] = d
	}
	return there
}

// Differences are the differences between a gr and what is deployed of it.
type Differences struct {
	components []Component
	// Templates are the changed templates of components, in addition to pods that are
	// outdated already. Components without a DaemonSet are not among them: they are
	// deployed at once.
	Templates map[string]Template
	// Gone are the components whose DaemonSets would be deleted at once.
	Gone []string
	// New are the DaemonSets that do not exist yet.
	New []observed.Member
	// atOnce: the gr has no strategy.
	atOnce bool
}

// Template is a changed pod template of a component.
type Template struct {
	Pod corev1.PodTemplateSpec
	// Revision is the hash of an existing ControllerRevision with this template; "" if there is none, so
	// that no pod has it.
	Revision string
}

// Compare returns what happens to each component when present becomes wanted. members are the
// deployed DaemonSets, and specs the kept specs of the gr by the names of their revisions.
func Compare(present, wanted *topsv1.GcuResource, members []observed.Member, specs map[string]*topsv1.GcuResourceSpec) (*Differences, error) {
	there := deployedOf(present, members, specs)
	was, err := rendered(present, &present.Spec)
	if err != nil {
		return nil, err
	}
	is, err := rendered(wanted, &wanted.Spec)
	if err != nil {
		return nil, err
	}
	settings, err := component.SettingsOf(wanted)
	c := &Differences{Templates: map[string]Template{}, atOnce: err == nil && settings.Strategy == daemonset.NoStrategy}
	for name, d := range there {
		if is[name] == nil {
			c.leave(name, d, Remove, Delete)
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
	sortComponents(c.components)
	slices.Sort(c.Gone)
	slices.SortFunc(c.New, func(a, b observed.Member) int { return cmp.Compare(a.Component(), b.Component()) })
	return c, nil
}

// perNode compares a component that runs on every node with its DaemonSet.
func (c *Differences) perNode(wanted *topsv1.GcuResource, r *component.Rendered, there map[string]deployed) error {
	d, exists := there[r.Name]
	switch {
	case !exists:
		c.add(r.Name, Deploy)
		c.New = append(c.New, observed.Member{DaemonSet: r.PerNode})
		return nil
	case d.daemonSet.Namespace != r.PerNode.Namespace || d.daemonSet.Name != r.PerNode.Name:
		c.leave(r.Name, d, Rename, Redeploy)
		c.New = append(c.New, observed.Member{DaemonSet: r.PerNode})
		return nil
	}
	template := r.PerNode.Spec.Template
	before, err := templateOf(wanted, d.from, r.Name)
	if err != nil || before != nil && equality.Semantic.DeepEqual(*before, template) {
		return err
	}
	to := Template{Pod: template}
	for hash, spec := range d.before {
		earlier, err := templateOf(wanted, spec, r.Name)
		if err != nil {
			return err
		}
		if earlier != nil && equality.Semantic.DeepEqual(*earlier, template) {
			to.Revision = max(to.Revision, hash)
		}
	}
	c.Templates[r.Name] = to
	c.components = append(c.components, Component{Name: r.Name, Change: Upgrade, Images: images(before, &template)})
	return nil
}

// elsewhere compares a component that does not run on every node with its earlier form.
func (c *Differences) elsewhere(is, was *component.Rendered) {
	switch {
	case was == nil:
		c.add(is.Name, Deploy)
	case !equality.Semantic.DeepEqual(podTemplates(was), podTemplates(is)):
		c.add(is.Name, Update)
	}
}

// leave adds a component whose DaemonSet is removed: node by node, or at once without a strategy.
func (c *Differences) leave(name string, d deployed, nodeByNode, atOnce Change) {
	if c.atOnce {
		c.add(name, atOnce)
		return
	}
	c.add(name, nodeByNode)
	template := d.daemonSet.Spec.Template.DeepCopy()
	template.Spec.SchedulingGates = append(template.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: topsv1.GateRemoved})
	c.Templates[name] = Template{Pod: *template}
}

func (c *Differences) add(name string, change Change) {
	c.components = append(c.components, Component{Name: name, Change: change})
	if change == Delete || change == Redeploy {
		c.Gone = append(c.Gone, name)
	}
}

// sortComponents sorts components in the order of deployment.
func sortComponents(list []Component) {
	slices.SortFunc(list, func(a, b Component) int {
		return cmp.Or(cmp.Compare(component.Place(a.Name), component.Place(b.Name)), cmp.Compare(a.Name, b.Name))
	})
}

// Counted returns the components, each with the number of nodes on which the rollout replaces its
// pods. Components whose pods are replaced without a change of their template are included.
func (c *Differences) Counted(outlook *Rollout, limit *daemonset.Limit) []Component {
	nodes, outdated := map[string]int{}, map[string]bool{}
	for i := range outlook.Nodes {
		for _, name := range outlook.Nodes[i].Replaces {
			nodes[name]++
		}
		for _, name := range outlook.Nodes[i].Upgrades {
			outdated[name] = true
		}
	}
	list := slices.Clone(c.components)
	for i := range list {
		of := &list[i]
		if of.Change.replacesPods() {
			of.Nodes, of.LeftOut = nodes[of.Name], !limit.HasComponent(of.Name)
		}
		delete(nodes, of.Name)
	}
	for name, n := range nodes {
		change := Restart
		if outdated[name] { // left to do from an earlier upgrade
			change = Upgrade
		}
		list = append(list, Component{Name: name, Change: change, Nodes: n})
	}
	sortComponents(list)
	if list == nil {
		return []Component{}
	}
	return list
}

// Foresee returns the members as they will be after the change, with the given upgrade annotations,
// or with their own if these are nil.
func (c *Differences) Foresee(members []observed.Member, annotations map[string]string) []observed.Member {
	var next []observed.Member
	for _, m := range members {
		if !slices.Contains(c.Gone, m.Component()) {
			next = append(next, c.predict(m, annotations))
		}
	}
	return next
}

// notThere stands for the hash of a revision that does not exist yet.
const notThere = "preview"

func (c *Differences) predict(m observed.Member, annotations map[string]string) observed.Member {
	m.DaemonSet = m.DaemonSet.DeepCopy()
	if annotations != nil {
		if m.DaemonSet.Annotations == nil {
			m.DaemonSet.Annotations = map[string]string{}
		}
		for _, key := range topsv1.UpgradeAnnotations {
			delete(m.DaemonSet.Annotations, key)
		}
		maps.Copy(m.DaemonSet.Annotations, annotations)
	}
	if t, ok := c.Templates[m.Component()]; ok {
		m.DaemonSet.Spec.Template, m.Foreseen = t.Pod, cmp.Or(t.Revision, notThere)
	}
	return m
}

// rendered renders a gr with another spec, and returns its components by name.
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

// templateOf returns the pod template of a component in a spec, nil if the spec lacks it or
// it does not run on every node.
func templateOf(gr *topsv1.GcuResource, spec *topsv1.GcuResourceSpec, name string) (*corev1.PodTemplateSpec, error) {
	all, err := rendered(gr, spec)
	if err != nil || all[name] == nil || all[name].PerNode == nil {
		return nil, err
	}
	return &all[name].PerNode.Spec.Template, nil
}

// podTemplates returns the templates of a component's workloads.
func podTemplates(r *component.Rendered) map[component.Ref]any {
	templates := map[component.Ref]any{}
	for _, d := range r.Objects {
		if d.Ref.Workload() && !d.Ref.CreateOnly() {
			templates[d.Ref], _, _ = unstructured.NestedFieldNoCopy(d.Object.Object, "spec", "template")
		}
	}
	return templates
}

// images returns the changed images, by container name.
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
