package simapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Key names an object of the model.
type Key struct{ Kind, Namespace, Name string }

// Named returns the key of an object.
func Named(kind, namespace, name string) Key { return Key{kind, namespace, name} }

func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

// API is the model of the API server: the true state, and per kind the log of all changes,
// which feeds the caches. Stored objects are never changed, only replaced. It is used by one
// goroutine at a time.
type API struct {
	now func() time.Time
	// Changed is called for every new version of an object.
	Changed func(client.Object)
	// Counter is the last resourceVersion; Lost are the versions that restored backups took back.
	Counter, Lost int
	// Objects are the true state, Keys their keys by kind, sorted.
	Objects map[Key]client.Object
	Keys    map[string][]Key
	// Log are all changes by kind, from the beginning.
	Log map[string][]Change
	// Schema drops the fields that a CRD does not have; nil if they have all.
	Schema Schema
	// strict: the write in progress is refused instead.
	strict bool
}

// Change is one entry of the log; object is nil for a removal.
type Change struct {
	Key    Key
	Object client.Object
}

// New returns an empty API server with a clock.
func New(now func() time.Time) *API {
	return &API{now: now, Changed: func(client.Object) {}, Objects: map[Key]client.Object{}, Keys: map[string][]Key{}, Log: map[string][]Change{}}
}

// KindOf returns the kind of a typed object or list.
func KindOf(object any) string {
	return strings.TrimSuffix(reflect.TypeOf(object).Elem().Name(), "List")
}

// KeyOf returns the key of a typed object.
func KeyOf(object client.Object) Key {
	return Key{KindOf(object), object.GetNamespace(), object.GetName()}
}

// Copy returns a deep copy.
func Copy[T client.Object](object T) T { return object.DeepCopyObject().(T) }

// Into makes dst a copy of src, like decoding a response.
func Into(dst, src client.Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src.DeepCopyObject()).Elem())
}

// CompareKeys orders the keys of one kind.
func CompareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Put stores a new version of an object, which the caller must not change afterwards.
func (a *API) Put(object client.Object) {
	a.Counter++
	key := KeyOf(object)
	object, _ = a.Schema.Prune(object)
	object.SetResourceVersion(fmt.Sprint(a.Counter))
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", a.Counter+a.Lost)))
		object.SetCreationTimestamp(metav1.NewTime(a.now().Truncate(time.Second)))
	}
	if _, ok := a.Objects[key]; !ok {
		i, _ := slices.BinarySearchFunc(a.Keys[key.Kind], key, CompareKeys)
		a.Keys[key.Kind] = slices.Insert(a.Keys[key.Kind], i, key)
	}
	a.Objects[key] = object
	a.Log[key.Kind] = append(a.Log[key.Kind], Change{key, object})
	a.Changed(object)
}

// Remove removes an object at once.
func (a *API) Remove(key Key) {
	if _, ok := a.Objects[key]; !ok {
		return
	}
	a.Counter++
	delete(a.Objects, key)
	if i, ok := slices.BinarySearchFunc(a.Keys[key.Kind], key, CompareKeys); ok {
		a.Keys[key.Kind] = slices.Delete(slices.Clone(a.Keys[key.Kind]), i, i+1)
	}
	a.Log[key.Kind] = append(a.Log[key.Kind], Change{key, nil})
}

// Get returns the stored object, nil if there is none.
func Get[T client.Object](a *API, key Key) (object T) {
	if stored, ok := a.Objects[key]; ok {
		return stored.(T)
	}
	return object
}

// All returns the objects of a kind, sorted by namespace and name.
func All[T client.Object](a *API, kind string) []T {
	list := make([]T, 0, len(a.Keys[kind]))
	for _, key := range a.Keys[kind] {
		list = append(list, a.Objects[key].(T))
	}
	return list
}

// Edit changes an existing object.
func Edit[T client.Object](a *API, key Key, change func(T)) {
	if _, ok := a.Objects[key]; !ok {
		return
	}
	next := Copy(a.Objects[key].(T))
	change(next)
	a.Put(next)
}

// Resource returns the resource that an error of the API server names.
func Resource(key Key) schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(key.Kind) + "s"}
}

// Conflict returns the error of a violated precondition.
func Conflict(key Key, what string) error {
	return apierrors.NewConflict(Resource(key), key.Name, errors.New(what))
}

// Create is POST; the status of an object with a status subresource is dropped.
func (a *API) Create(object client.Object) error {
	if object.GetName() == "" {
		object.SetName(fmt.Sprint(object.GetGenerateName(), a.Counter+a.Lost))
	}
	key := KeyOf(object)
	if _, ok := a.Objects[key]; ok {
		return apierrors.NewAlreadyExists(Resource(key), key.Name)
	}
	next := Copy(object)
	if status := reflect.ValueOf(next).Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	next.SetUID("")
	next.SetGeneration(1)
	next, err := a.admit(next)
	if err != nil {
		return err
	}
	a.Put(next)
	Into(object, next)
	return nil
}

// Update is PUT of a part of an object: it ignores everything but that and the preconditions.
func (a *API) Update(object client.Object, part, manager string) error {
	key := KeyOf(object)
	stored, ok := a.Objects[key]
	if !ok {
		return apierrors.NewNotFound(Resource(key), key.Name)
	}
	if err := unchanged(stored, object.GetUID(), object.GetResourceVersion()); err != nil {
		return err
	}
	sent := reflect.New(reflect.TypeOf(stored).Elem()).Interface().(client.Object)
	sent.SetLabels(maps.Clone(object.GetLabels()))
	sent.SetAnnotations(maps.Clone(object.GetAnnotations()))
	sent.SetFinalizers(slices.Clone(object.GetFinalizers()))
	from, to := fieldOf(object, part), fieldOf(sent, part)
	if from.IsValid() { // only what is stored goes through JSON
		text, err := json.Marshal(from.Interface())
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, to.Addr().Interface()); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return a.storePart(stored, sent, object, part, manager)
}

// fieldOf returns the field that holds a part of an object; invalid if there is none.
func fieldOf(object client.Object, part string) reflect.Value {
	if part == Main {
		part = Spec
	}
	return reflect.ValueOf(object).Elem().FieldByName(part)
}

// equal is semantic equality. What is the same value by value is so, too, and that is found out much faster.
func equal(a, b any) bool {
	return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b)
}

// Parts of an object that a write changes: the status, the spec, or all but the status.
const (
	Status = "Status"
	Spec   = "Spec"
	Main   = ""
)

// storePart stores a part of an object as it was sent if it has changed, and returns the object in
// answer.
func (a *API) storePart(stored, sent, answer client.Object, part, manager string) error {
	next := Copy(stored)
	if part == Main {
		next.SetLabels(sent.GetLabels())
		next.SetAnnotations(sent.GetAnnotations())
		next.SetFinalizers(sent.GetFinalizers())
	}
	if field := fieldOf(next, part); field.IsValid() {
		changed := fieldOf(sent, part)
		if part != Status && !equal(field.Interface(), changed.Interface()) {
			next.SetGeneration(next.GetGeneration() + 1)
		}
		field.Set(changed)
	}
	next, err := a.admit(next)
	if err != nil {
		return err
	}
	if !equal(next, stored) {
		noteCordon(stored, next, manager)
		a.Put(next)
	}
	Into(answer, next)
	return nil
}

// noteCordon keeps who changed the cordon of a node, the one managed field that is read.
func noteCordon(before, after client.Object, manager string) {
	old, isNode := before.(*corev1.Node)
	if node, _ := after.(*corev1.Node); isNode && old.Spec.Unschedulable != node.Spec.Unschedulable {
		node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:unschedulable":{}}}`)}}}
	}
}

// Delete is DELETE: a bound pod terminates gracefully, an object with finalizers stays until they
// are removed. effective is false if it was already being deleted.
func (a *API) Delete(key Key, preconditions *metav1.Preconditions) (effective bool, err error) {
	stored, ok := a.Objects[key]
	if !ok {
		return false, apierrors.NewNotFound(Resource(key), key.Name)
	}
	if p := preconditions; p != nil {
		if err := unchanged(stored, ptr.Deref(p.UID, ""), ptr.Deref(p.ResourceVersion, "")); err != nil {
			return false, err
		}
	}
	pod, isPod := stored.(*corev1.Pod)
	stays := len(stored.GetFinalizers()) > 0 || (isPod && pod.Spec.NodeName != "")
	switch {
	case stays && stored.GetDeletionTimestamp() != nil:
		return false, nil
	case stays:
		next := Copy(stored)
		now := metav1.NewTime(a.now().Truncate(time.Second))
		next.SetDeletionTimestamp(&now)
		a.Put(next)
	default:
		a.Remove(key)
	}
	return true, nil
}

// Evict is POST of the eviction of a pod, or a dry run of it. A PodDisruptionBudget may refuse it.
func (a *API) Evict(request *policyv1.Eviction) error {
	key := Named("Pod", request.Namespace, request.Name)
	pod := Get[*corev1.Pod](a, key)
	if pod == nil {
		return apierrors.NewNotFound(Resource(key), key.Name)
	}
	options := ptr.Deref(request.DeleteOptions, metav1.DeleteOptions{})
	if p := options.Preconditions; p != nil {
		if err := unchanged(pod, ptr.Deref(p.UID, ""), ptr.Deref(p.ResourceVersion, "")); err != nil {
			return err
		}
	}
	for _, budget := range All[*policyv1.PodDisruptionBudget](a, "PodDisruptionBudget") {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return err
		}
		if selector.Matches(labels.Set(pod.Labels)) && budget.Status.DisruptionsAllowed == 0 {
			refused := apierrors.NewTooManyRequests("it would violate the budget", 10)
			refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + budget.Name + " needs 1 healthy pods and has 1 currently"}}
			return refused
		}
	}
	if len(options.DryRun) > 0 {
		return nil
	}
	_, err := a.Delete(key, options.Preconditions)
	return err
}

// unchanged checks the preconditions of a write, "" for none.
func unchanged(stored client.Object, uid types.UID, version string) error {
	switch {
	case uid != "" && uid != stored.GetUID():
		return Conflict(KeyOf(stored), "the UID in the precondition differs")
	case version != "" && version != stored.GetResourceVersion():
		return Conflict(KeyOf(stored), "the object has been modified")
	}
	return nil
}
