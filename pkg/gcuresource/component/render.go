package component

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Rendered is one component as a gr requests it.
type Rendered struct {
	// Name is the component's key in the spec.
	Name string
	// Order is its position in the deployment order, counted from 1.
	Order int
	// Namespace of its namespaced objects.
	Namespace string
	// Readiness says when it runs.
	Readiness Readiness
	// Objects in the order in which the status lists them.
	Objects []Desired
	// PerNode is the DaemonSet among Objects; nil if Readiness is EveryReplica.
	PerNode *appsv1.DaemonSet
}

// Offers returns the extended resources of which a node has at least one while the component works
// there; nil if it offers none.
func (r *Rendered) Offers() []corev1.ResourceName {
	e := Find(r.Name)
	if !e.Further || r.PerNode == nil {
		return e.Offers
	}
	return append(slices.Clip(e.Offers), daemonset.FurtherResources(&r.PerNode.Spec.Template.Spec)...)
}

// Workloads returns the objects that create pods, in the order of Objects.
func (r *Rendered) Workloads() []Ref {
	var refs []Ref
	for i := range r.Objects {
		if r.Objects[i].Ref.Workload() {
			refs = append(refs, r.Objects[i].Ref)
		}
	}
	return refs
}

// WebhookServer returns the workload whose pods the webhooks of the component call; ok is false without any.
func (r *Rendered) WebhookServer() (server Ref, ok bool) {
	i := slices.IndexFunc(r.Objects, func(d Desired) bool { return d.Ref.Webhook() })
	if i < 0 {
		return Ref{}, false
	}
	hooks, _, _ := unstructured.NestedSlice(r.Objects[i].Object.Object, "webhooks")
	if len(hooks) == 0 {
		return Ref{}, false
	}
	hook, _ := hooks[0].(map[string]any)
	service, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name")
	i = slices.IndexFunc(r.Objects, func(d Desired) bool { return d.Ref.Kind == "Service" && d.Ref.Name == service })
	if i < 0 {
		return Ref{}, false
	}
	name, _, _ := unstructured.NestedString(r.Objects[i].Object.Object, "spec", "selector", LabelName)
	for _, ref := range r.Workloads() {
		if ref.Name == name {
			return ref, true
		}
	}
	return Ref{}, false
}

// HasNodePort reports whether a Service of the component asks for a port of its own on every node, which one Service can
// have.
func (r *Rendered) HasNodePort() bool {
	for i := range r.Objects {
		ports, _, _ := unstructured.NestedSlice(r.Objects[i].Object.Object, "spec", "ports")
		for _, p := range ports {
			if port, ok := p.(map[string]any); ok && port["nodePort"] != nil {
				return true
			}
		}
	}
	return false
}

// FurtherResources returns the resources that device plugins name in a spec (daemonset.FurtherResources), nil for none.
func FurtherResources(spec *topsv1.GcuResourceSpec) (names []corev1.ResourceName) {
	for i := range catalog {
		if fields := catalog[i].fields(spec); catalog[i].Further && fields != nil {
			names = append(names, daemonset.FurtherResources(&corev1.PodSpec{Containers: []corev1.Container{{Env: fields.Env}}})...)
		}
	}
	return names
}

// Render is RenderIn for the zero Cluster. It suffices to compare two specs: the Cluster changes both in the same
// way.
func Render(gr *topsv1.GcuResource, revision string) ([]Rendered, error) {
	return RenderIn(Cluster{}, gr, revision)
}

// RenderIn returns the components that a gr requests, in deployment order. revision is the name of
// the revision of its spec. The result depends only on these. An error means that a built-in
// manifest cannot be decoded or encoded, which is a bug in this program.
func RenderIn(cluster Cluster, gr *topsv1.GcuResource, revision string) ([]Rendered, error) {
	var components []Rendered
	for i := range catalog {
		entry := &catalog[i]
		if !entry.requested(&gr.Spec) {
			continue
		}
		r := Rendered{Name: entry.Name, Order: i + 1, Readiness: entry.Readiness}
		list, err := manifestOf(entry.Name)
		if err != nil {
			return nil, err
		}
		if entry.patch != nil {
			entry.patch(list, &gr.Spec)
		}
		if entry.Name == Toolkit && cluster.Distributions {
			serveDistributions(list, &gr.Spec)
		}
		list.apply(entry.fields(&gr.Spec))
		for _, pod := range list.pods() {
			setPullSecrets(pod, gr.Spec.ImagePullSecrets)
		}
		if err := r.fill(gr, revision, list); err != nil {
			return nil, fmt.Errorf("rendering component %s: %w", entry.Name, err)
		}
		components = append(components, r)
	}
	return components, nil
}

// WorkloadRefs returns the workloads that a component has in a spec, or would have if notDeploy did not disable
// it. Errors are those of Render.
func WorkloadRefs(spec *topsv1.GcuResourceSpec, name string) ([]Ref, error) {
	list, err := manifestOf(name)
	if err != nil {
		return nil, err
	}
	entry := Find(name)
	fields := entry.fields(spec)
	if entry.patch != nil && fields != nil {
		entry.patch(list, spec)
	}
	list.apply(fields)
	var places []Ref
	for _, o := range list {
		if ref := RefOf(o); ref.Workload() {
			places = append(places, ref)
		}
	}
	return places, nil
}

// DaemonSets returns the components of the DaemonSets among the WorkloadRefs of all components of a spec, by the keys of
// the DaemonSets, at a fraction of the cost. Errors are those of Render.
func DaemonSets(spec *topsv1.GcuResourceSpec) (map[types.NamespacedName]string, error) {
	manifests, err := readManifests()
	if err != nil {
		return nil, err
	}
	keys := map[types.NamespacedName]string{}
	for _, name := range PerNode() {
		fields := Find(name).fields(spec)
		for _, o := range manifests[name] {
			ds, ok := o.(*appsv1.DaemonSet)
			if !ok {
				continue
			}
			key := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
			if fields != nil {
				key = types.NamespacedName{Namespace: cmp.Or(fields.Namespace, key.Namespace), Name: cmp.Or(fields.Name, key.Name)}
			}
			if other := keys[key]; other == "" || !Find(other).requested(spec) {
				keys[key] = name // one that is not requested hides none that is
			}
		}
	}
	return keys, nil
}

func (r *Rendered) fill(gr *topsv1.GcuResource, revision string, list objects) error {
	for _, o := range list {
		own(gr, r.Name, o)
		if ds, ok := o.(*appsv1.DaemonSet); ok {
			annotate(gr, r.Order, ds)
			ds.Annotations[topsv1.AnnotationRevision] = revision
			r.PerNode = ds
		}
		d, err := desired(o)
		if err != nil {
			return err
		}
		if d.Ref.Workload() {
			r.Namespace = d.Ref.Namespace
		}
		r.Objects = append(r.Objects, d)
	}
	return nil
}

// own marks an object as deployed by the operator for a gr. Kept objects get no owner, because they stay
// when the gr is deleted, and do not name it, because several grs may apply them.
func own(gr *topsv1.GcuResource, component string, o object) {
	labels := maps.Clone(o.GetLabels())
	labels[topsv1.LabelManagedBy] = topsv1.ManagedBy
	labels[topsv1.LabelComponent] = component
	if RefOf(o).Kept() {
		o.SetLabels(labels)
		return
	}
	labels[topsv1.LabelGcuResource] = gr.Name
	o.SetLabels(labels)
	// The owners of these pods come and go, so the label names their gr.
	switch o.(type) {
	case *appsv1.Deployment, *batchv1.Job:
		metav1.SetMetaDataLabel(&templateOf(o).ObjectMeta, topsv1.LabelGcuResource, gr.Name)
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion:         topsv1.GroupVersion.String(),
		Kind:               topsv1.GcuResourceKind,
		Name:               gr.Name,
		UID:                gr.UID,
		Controller:         ptr.To(true),
		BlockOwnerDeletion: ptr.To(false),
	}})
}

// annotate copies the upgrade settings of the gr to a DaemonSet: to the object, never to its pod
// template, where they would create a new revision.
func annotate(gr *topsv1.GcuResource, order int, ds *appsv1.DaemonSet) {
	ds.Annotations = UpgradeAnnotations(gr)
	ds.Annotations[topsv1.AnnotationOrder] = strconv.Itoa(order)
}

// carried are the keys of the annotations that are copied from a gr, as it is deployed, to its
// DaemonSets.
var carried = append(slices.Clone(topsv1.UpgradeAnnotations), topsv1.AnnotationRejectedRevision)

// UpgradeAnnotations returns the annotations of a gr that are copied to its DaemonSets.
func UpgradeAnnotations(gr *topsv1.GcuResource) map[string]string {
	annotations := map[string]string{}
	for _, key := range carried {
		if value, ok := gr.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	return annotations
}

// SettingsOf returns the upgrade settings that a gr passes to its DaemonSets.
func SettingsOf(gr *topsv1.GcuResource) (daemonset.Settings, error) {
	return daemonset.SettingsIn(UpgradeAnnotations(gr))
}

// desired encodes an object for server-side apply: without status, and without the empty times
// that Go structs always have.
func desired(o object) (Desired, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return Desired{}, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	hash, err := hashOf(content)
	if err != nil {
		return Desired{}, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	return Desired{Ref: RefOf(o), Object: &unstructured.Unstructured{Object: content}, Hash: hash}, nil
}

// hashOf identifies the content of an object.
func hashOf(content map[string]any) (string, error) {
	encoded, err := json.Marshal(content) // sorts map keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}
