package gcuresource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// gcuResourceKind is the kind of a gr in owner references.
const gcuResourceKind = "GcuResource"

// object is any Kubernetes object.
type object interface {
	runtime.Object
	metav1.Object
}

// Ref identifies an object; Namespace is empty for cluster scoped kinds.
type Ref struct {
	schema.GroupVersionKind
	Namespace string
	Name      string
}

// String is the kind and the name, as a message tells them.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Desired is one object as a gr wants it.
type Desired struct {
	Ref Ref
	// Object is what is applied: the fields this operator owns, nothing else.
	Object *unstructured.Unstructured
	// Hash identifies the content of Object.
	Hash string
}

// Rendered is one component as a gr asks for it.
type Rendered struct {
	// Name is the component's key in the spec.
	Name string
	// Order is its place in the deployment order, counted from 1.
	Order int
	// Namespace is where its namespaced objects go; empty when not Served.
	Namespace string
	// Served is false for a component this version cannot deploy.
	Served bool
	// Objects are in the order in which the status lists them.
	Objects []Desired
	// Workload is the component's DaemonSet, one of Objects; nil when not Served.
	Workload *appsv1.DaemonSet
}

// Render returns the components a gr asks for in deployment order; those that
// this version does not serve come last, so that they hold up nobody. The same
// gr always renders the same objects. An error means that a built-in manifest
// cannot be encoded, which is a defect of this program.
func Render(gr *topsv1.GcuResource) ([]Rendered, error) {
	revision, err := revisionOf(gr)
	if err != nil {
		return nil, err
	}
	var served, unserved []Rendered
	for i, c := range catalog {
		if !c.requested(&gr.Spec) {
			continue
		}
		r := Rendered{Name: c.name, Order: i + 1}
		if c.render == nil {
			unserved = append(unserved, r)
			continue
		}
		if err := r.fill(gr, revision, c.render(&gr.Spec)); err != nil {
			return nil, fmt.Errorf("rendering component %s: %w", c.name, err)
		}
		served = append(served, r)
	}
	return append(served, unserved...), nil
}

func (r *Rendered) fill(gr *topsv1.GcuResource, revision string, objects []object) error {
	r.Served = true
	for _, o := range objects {
		own(gr, r.Name, o)
		if ds, ok := o.(*appsv1.DaemonSet); ok {
			annotate(gr, r.Order, ds)
			ds.Annotations[topsv1.AnnotationRevision] = revision
			r.Workload, r.Namespace = ds, ds.Namespace
		}
		d, err := desired(o)
		if err != nil {
			return err
		}
		r.Objects = append(r.Objects, d)
	}
	return nil
}

// own marks an object as deployed by the operator for a gr. The CRD has no
// owner: it stays when the gr goes (decision D16).
func own(gr *topsv1.GcuResource, component string, o object) {
	labels := maps.Clone(o.GetLabels())
	labels[topsv1.LabelManagedBy] = topsv1.ManagedBy
	labels[topsv1.LabelGcuResource] = gr.Name
	labels[topsv1.LabelComponent] = component
	o.SetLabels(labels)
	if kept(o.GetName()) {
		return
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion:         topsv1.GroupVersion.String(),
		Kind:               gcuResourceKind,
		Name:               gr.Name,
		UID:                gr.UID,
		Controller:         ptr.To(true),
		BlockOwnerDeletion: ptr.To(false),
	}})
}

// kept tells whether an object stays in the cluster when its gr goes.
func kept(name string) bool { return name == nodeFeatureRuleCRDName }

// annotate carries the upgrade settings of the gr onto a DaemonSet: onto the
// object, never onto its pod template, where they would make a new revision.
func annotate(gr *topsv1.GcuResource, order int, ds *appsv1.DaemonSet) {
	ds.Annotations = carried(gr)
	ds.Annotations[topsv1.AnnotationOrder] = strconv.Itoa(order)
}

// carried returns the upgrade annotations of a gr.
func carried(gr *topsv1.GcuResource) map[string]string {
	annotations := map[string]string{}
	for _, key := range topsv1.UpgradeAnnotations {
		if value, ok := gr.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	return annotations
}

// desired encodes an object for server-side apply: without status and without
// the empty times Go structs always carry.
func desired(o object) (Desired, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return Desired{}, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	encoded, err := json.Marshal(content) // sorts map keys
	if err != nil {
		return Desired{}, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	sum := sha256.Sum256(encoded)
	u := &unstructured.Unstructured{Object: content}
	return Desired{
		Ref:    Ref{GroupVersionKind: u.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()},
		Object: u,
		Hash:   hex.EncodeToString(sum[:]),
	}, nil
}
