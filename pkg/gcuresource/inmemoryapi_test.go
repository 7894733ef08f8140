package gcuresource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/topsops/gcu-operator/test/world"
)

// memoryAPI is an API server without a network, with what the controllers use and with the
// decisions of a real one: server-side apply with one owner, UIDs, resource versions,
// generations, preconditions, finalizers, and namespaces that are missing or terminating. It can
// be copied, so that a story with a fault is played from the moment of the fault. The same
// stories are played on a real API server too, which reveals errors here.
type memoryAPI struct {
	// refusal is the answer of admission to a dry run, nil if it accepts.
	refusal          error
	client.WithWatch // nil: methods that are not called
	scheme           *runtime.Scheme
	entries          map[objectKey]*entry
	// made counts how often each object was created.
	made    map[objectKey]int
	version int64
}

// objectKey identifies an object.
type objectKey struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

func (k objectKey) String() string { return k.kind.Kind + " " + k.namespace + "/" + k.name }

// entry is one object. It is immutable: a write replaces it.
type entry struct {
	object *unstructured.Unstructured
	// applied is what the field owner applied last; nil if it never did.
	applied map[string]any
	// typed are decoded forms, shared by all readers; face is the result of faceOf.
	typed map[reflect.Type]client.Object
	face  string
}

func newMemoryAPI(scheme *runtime.Scheme) *memoryAPI {
	return &memoryAPI{scheme: scheme, entries: map[objectKey]*entry{}, made: map[objectKey]int{}, version: 1}
}

// copied returns another API server in the same state.
func (m *memoryAPI) copied() *memoryAPI {
	c := *m
	c.entries, c.made = maps.Clone(m.entries), maps.Clone(m.made)
	return &c
}

func (m *memoryAPI) Scheme() *runtime.Scheme { return m.scheme }

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource()
}

func (m *memoryAPI) keyOf(o client.Object) (objectKey, error) {
	kind, err := apiutil.GVKForObject(o, m.scheme)
	return objectKey{kind, o.GetNamespace(), o.GetName()}, err
}

func (m *memoryAPI) find(key objectKey) (*entry, error) {
	if e := m.entries[key]; e != nil {
		return e, nil
	}
	return nil, apierrors.NewNotFound(resourceOf(key.kind), key.name)
}

// into copies an entry into an object of any Go type.
func (e *entry) into(o client.Object) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(e.object.Object)
		return nil
	}
	typed, err := e.as(reflect.TypeOf(o))
	if err != nil {
		return err
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(typed.DeepCopyObject()).Elem())
	return nil
}

// as returns the shared decoded form.
func (e *entry) as(t reflect.Type) (client.Object, error) {
	if e.typed[t] == nil {
		o := reflect.New(t.Elem()).Interface().(client.Object)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.object.Object, o); err != nil {
			return nil, err
		}
		e.typed[t] = o
	}
	return e.typed[t], nil
}

func (m *memoryAPI) Get(_ context.Context, name client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(o, m.scheme)
	if err != nil {
		return err
	}
	e, err := m.find(objectKey{kind, name.Namespace, name.Name})
	if err != nil {
		return err
	}
	if o.GetName() == "" {
		return e.into(o)
	}
	data, err := json.Marshal(e.object.Object) // like a client of the API server, it leaves what the answer does not have
	if err != nil {
		return err
	}
	return json.Unmarshal(data, o)
}

func (m *memoryAPI) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, m.scheme)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	var keys []objectKey
	for key, e := range m.entries {
		if key.kind == kind && (options.Namespace == "" || key.namespace == options.Namespace) &&
			(options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(e.object.GetLabels()))) &&
			(options.FieldSelector == nil || options.FieldSelector.Matches(fieldsOf(e.object))) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b objectKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, key := range keys {
		item := reflect.New(items.Type().Elem())
		if err := m.entries[key].into(item.Interface().(client.Object)); err != nil {
			return err
		}
		items.Set(reflect.Append(items, item.Elem()))
	}
	return nil
}

// fieldsOf returns the fields of an object that can be selected by.
func fieldsOf(o *unstructured.Unstructured) fields.Set {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	return fields.Set{"spec.nodeName": node}
}

func (m *memoryAPI) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	key, err := m.keyOf(o)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(content, "status")
	e, err := m.create(key, content, nil)
	if err != nil {
		return err
	}
	return e.into(o)
}

func (m *memoryAPI) create(key objectKey, content, applied map[string]any) (*entry, error) {
	if m.entries[key] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(key.kind), key.name)
	}
	if key.namespace != "" {
		if err := m.admits(key); err != nil {
			return nil, err
		}
	}
	m.made[key]++
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	u.SetGroupVersionKind(key.kind)
	u.SetUID(types.UID(fmt.Sprintf("%s #%d", key, m.made[key])))
	u.SetCreationTimestamp(metav1.NewTime(world.Noon))
	u.SetGeneration(1)
	switch key.kind.Kind { // like the admission of the API server
	case "PersistentVolume":
		u.SetFinalizers([]string{"kubernetes.io/pv-protection"})
	case "PersistentVolumeClaim":
		u.SetFinalizers([]string{"kubernetes.io/pvc-protection"})
	}
	return m.store(key, u, applied), nil
}

// admits reports whether objects may be created in a namespace.
func (m *memoryAPI) admits(key objectKey) error {
	namespace := m.entries[objectKey{corev1.SchemeGroupVersion.WithKind("Namespace"), "", key.namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(resourceOf(corev1.SchemeGroupVersion.WithKind("Namespace")), key.namespace)
	}
	if namespace.object.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(resourceOf(key.kind), key.name, errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func (m *memoryAPI) store(key objectKey, u *unstructured.Unstructured, applied map[string]any) *entry {
	m.version++
	u.SetResourceVersion(strconv.FormatInt(m.version, 10))
	e := &entry{object: u, applied: applied, typed: map[reflect.Type]client.Object{}}
	m.entries[key] = e
	return e
}

// replace stores another content of an existing object. Equal content changes nothing, the
// generation counts changes of the spec, and an object being deleted is removed with its last
// finalizer.
func (m *memoryAPI) replace(key objectKey, before *entry, content, applied map[string]any) *entry {
	if equality.Semantic.DeepEqual(before.object.Object, content) {
		e := &entry{object: before.object, applied: applied, typed: before.typed}
		m.entries[key] = e
		return e
	}
	u := &unstructured.Unstructured{Object: content}
	if !equality.Semantic.DeepEqual(before.object.Object["spec"], content["spec"]) {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	e := m.store(key, u, applied)
	if u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 {
		delete(m.entries, key)
	}
	return e
}

func (m *memoryAPI) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	key, err := m.keyOf(o)
	if err != nil {
		return err
	}
	before, err := m.find(key)
	if err != nil {
		return err
	}
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != before.object.GetUID() {
		return apierrors.NewConflict(resourceOf(key.kind), key.name, errors.New("the UID in the precondition does not match"))
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != before.object.GetResourceVersion() {
		return apierrors.NewConflict(resourceOf(key.kind), key.name, errors.New("the resourceVersion in the precondition does not match"))
	}
	if len(before.object.GetFinalizers()) == 0 {
		delete(m.entries, key)
		m.version++
		return nil
	}
	if before.object.GetDeletionTimestamp() == nil {
		u := before.object.DeepCopy()
		u.SetDeletionTimestamp(&metav1.Time{Time: world.Noon})
		u.SetGeneration(u.GetGeneration() + 1)
		m.store(key, u, before.applied)
	}
	return nil
}

func (m *memoryAPI) Patch(_ context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	var options client.PatchOptions
	if options.ApplyOptions(opts); len(options.DryRun) > 0 {
		return m.refusal
	}
	return m.patch(o, p, "")
}

// patch executes a merge patch of the object or of its status.
func (m *memoryAPI) patch(o client.Object, p client.Patch, sub string) error {
	key, err := m.keyOf(o)
	if err != nil {
		return err
	}
	before, err := m.find(key)
	if err != nil {
		return err
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	changes := map[string]any{}
	if err := json.Unmarshal(data, &changes); err != nil {
		return err
	}
	if have, _, _ := unstructured.NestedString(changes, "metadata", "resourceVersion"); have != "" && have != before.object.GetResourceVersion() {
		return apierrors.NewConflict(resourceOf(key.kind), key.name, errors.New("the object has been modified"))
	}
	if sub == "" {
		delete(changes, "status")
	} else {
		changes = map[string]any{sub: changes[sub]}
	}
	content := runtime.DeepCopyJSON(before.object.Object)
	merge(content, numbers(changes).(map[string]any))
	return m.replace(key, before, content, before.applied).into(o)
}

// merge applies a merge patch to an object.
func merge(object, patch map[string]any) {
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		old, wasMap := object[k].(map[string]any)
		switch {
		case v == nil:
			delete(object, k)
		case isMap && wasMap:
			merge(old, inner)
		case isMap:
			old = map[string]any{}
			merge(old, inner)
			object[k] = old
		default:
			object[k] = v
		}
	}
}

// numbers converts the floats that JSON decodes to into integers.
func numbers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}

func (m *memoryAPI) Status() client.SubResourceWriter { return m.SubResource("status") }

func (m *memoryAPI) SubResource(name string) client.SubResourceClient {
	return memoryPart{api: m, name: name}
}

// memoryPart is a subresource.
type memoryPart struct {
	client.SubResourceClient
	api  *memoryAPI
	name string
}

func (p memoryPart) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return p.api.patch(o, patch, p.name)
}
