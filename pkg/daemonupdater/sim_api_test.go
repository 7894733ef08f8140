package daemonupdater

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// Kinds of the model's API server.
const (
	simPods      = "Pod"
	simNodes     = "Node"
	simSets      = "DaemonSet"
	simRevisions = "ControllerRevision"
	simRollouts  = "DaemonRollout"
	simUpgrades  = "NodeUpgrade"
	simPolicies  = "UpgradePolicy"
	simGrs       = "GcuResource"
)

// simKey names an object of the model.
type simKey struct{ kind, namespace, name string }

func (k simKey) String() string { return k.kind + " " + k.namespace + "/" + k.name }

// simAPI is the model of the API server: the true state, and per kind the log of all changes,
// which feeds the caches. Stored objects are never changed, only replaced. It is used by one
// goroutine at a time.
type simAPI struct {
	now     func() time.Time
	changed func(client.Object) // called for every new version
	counter int
	lost    int // versions that restored backups took back
	objects map[simKey]client.Object
	keys    map[string][]simKey // by kind, sorted
	log     map[string][]simChange
}

// simChange is one entry of the log; object is nil for a removal.
type simChange struct {
	key    simKey
	object client.Object
}

func newSimAPI(now func() time.Time) *simAPI {
	return &simAPI{now: now, objects: map[simKey]client.Object{}, keys: map[string][]simKey{}, log: map[string][]simChange{}}
}

// simKind returns the kind of a typed object or list.
func simKind(object any) string {
	return strings.TrimSuffix(reflect.TypeOf(object).Elem().Name(), "List")
}

func simKeyOf(object client.Object) simKey {
	return simKey{simKind(object), object.GetNamespace(), object.GetName()}
}

func simCopy[T client.Object](object T) T { return object.DeepCopyObject().(T) }

// simInto makes dst a copy of src, like decoding a response.
func simInto(dst, src client.Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src.DeepCopyObject()).Elem())
}

func compareSimKeys(a, b simKey) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// put stores a new version of an object, which the caller must not change afterwards.
func (a *simAPI) put(object client.Object) {
	a.counter++
	key := simKeyOf(object)
	object.SetResourceVersion(fmt.Sprint(a.counter))
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", a.counter+a.lost)))
		object.SetCreationTimestamp(fixture.WholeSecond(a.now()))
	}
	if _, ok := a.objects[key]; !ok {
		i, _ := slices.BinarySearchFunc(a.keys[key.kind], key, compareSimKeys)
		a.keys[key.kind] = slices.Insert(a.keys[key.kind], i, key)
	}
	a.objects[key] = object
	a.log[key.kind] = append(a.log[key.kind], simChange{key, object})
	a.changed(object)
}

// remove removes an object at once.
func (a *simAPI) remove(key simKey) {
	if _, ok := a.objects[key]; !ok {
		return
	}
	a.counter++
	delete(a.objects, key)
	if i, ok := slices.BinarySearchFunc(a.keys[key.kind], key, compareSimKeys); ok {
		a.keys[key.kind] = slices.Delete(slices.Clone(a.keys[key.kind]), i, i+1)
	}
	a.log[key.kind] = append(a.log[key.kind], simChange{key, nil})
}

// simGet returns the stored object, nil if there is none.
func simGet[T client.Object](a *simAPI, key simKey) (object T) {
	if stored, ok := a.objects[key]; ok {
		return stored.(T)
	}
	return object
}

// simAll returns the objects of a kind, sorted by namespace and name.
func simAll[T client.Object](a *simAPI, kind string) []T {
	list := make([]T, 0, len(a.keys[kind]))
	for _, key := range a.keys[kind] {
		list = append(list, a.objects[key].(T))
	}
	return list
}

// simEdit changes an existing object.
func simEdit[T client.Object](a *simAPI, key simKey, change func(T)) {
	if _, ok := a.objects[key]; !ok {
		return
	}
	next := simCopy(a.objects[key].(T))
	change(next)
	a.put(next)
}

func simResource(key simKey) schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(key.kind) + "s"}
}

func simConflict(key simKey, what string) error {
	return apierrors.NewConflict(simResource(key), key.name, errors.New(what))
}

// create is POST; the status of an object with a status subresource is dropped.
func (a *simAPI) create(object client.Object) error {
	key := simKeyOf(object)
	if _, ok := a.objects[key]; ok {
		return apierrors.NewAlreadyExists(simResource(key), key.name)
	}
	next := simCopy(object)
	if status := reflect.ValueOf(next).Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	next.SetUID("")
	next.SetGeneration(1)
	a.put(next)
	simInto(object, next)
	return nil
}

// updateStatus is PUT on the status subresource: it ignores everything but the status and the
// preconditions.
func (a *simAPI) updateStatus(object client.Object) error {
	key := simKeyOf(object)
	stored, ok := a.objects[key]
	if !ok {
		return apierrors.NewNotFound(simResource(key), key.name)
	}
	if uid := object.GetUID(); uid != "" && uid != stored.GetUID() {
		return simConflict(key, "the UID in the precondition differs")
	}
	if version := object.GetResourceVersion(); version != "" && version != stored.GetResourceVersion() {
		return simConflict(key, "the object has been modified")
	}
	sent, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return a.storePart(stored, sent, object, "Status")
}

// storePart stores a part of an encoded object if it has changed, and returns the object in
// answer.
func (a *simAPI) storePart(stored client.Object, sent []byte, answer client.Object, part string) error {
	decoded := reflect.New(reflect.TypeOf(stored).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(sent, decoded); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	next := simCopy(stored)
	reflect.ValueOf(next).Elem().FieldByName(part).Set(reflect.ValueOf(decoded).Elem().FieldByName(part))
	if !equality.Semantic.DeepEqual(next, stored) {
		if part == "Spec" {
			next.SetGeneration(next.GetGeneration() + 1)
		}
		a.put(next)
	}
	simInto(answer, next)
	return nil
}

// patchStatus is PATCH on the status subresource, as a strategic merge patch or a merge patch.
func (a *simAPI) patchStatus(object client.Object, kind types.PatchType, data []byte) error {
	return a.patch(object, kind, data, "Status")
}

// patch is PATCH of a part of an object.
func (a *simAPI) patch(object client.Object, kind types.PatchType, data []byte, part string) error {
	key := simKeyOf(object)
	stored, ok := a.objects[key]
	if !ok {
		return apierrors.NewNotFound(simResource(key), key.name)
	}
	var meta struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if uid := meta.Metadata.UID; uid != "" && uid != stored.GetUID() {
		return simConflict(key, "the UID in the precondition differs")
	}
	if version := meta.Metadata.ResourceVersion; version != "" && version != stored.GetResourceVersion() {
		return simConflict(key, "the object has been modified")
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	var after []byte
	switch kind {
	case types.StrategicMergePatchType:
		if _, custom := stored.(*topsv1.NodeUpgrade); custom {
			return apierrors.NewBadRequest("strategic merge patch of a custom resource")
		}
		after, err = strategicpatch.StrategicMergePatch(before, data, stored)
	case types.MergePatchType:
		after, err = mergePatch(before, data)
	default:
		return fmt.Errorf("the model knows no patch of type %s", kind)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return a.storePart(stored, after, object, part)
}

// mergePatch is RFC 7386.
func mergePatch(document, patch []byte) ([]byte, error) {
	var d, p map[string]any
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	return json.Marshal(mergeMaps(d, p))
}

func mergeMaps(d, p map[string]any) map[string]any {
	if d == nil {
		d = map[string]any{}
	}
	for key, value := range p {
		sub, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(d, key)
		case isMap:
			old, _ := d[key].(map[string]any)
			d[key] = mergeMaps(old, sub)
		default:
			d[key] = value
		}
	}
	return d
}

// delete is DELETE: a bound pod terminates gracefully, an object with finalizers stays until they
// are removed. effective is false if it was already being deleted.
func (a *simAPI) delete(key simKey, preconditions *metav1.Preconditions) (effective bool, err error) {
	stored, ok := a.objects[key]
	if !ok {
		return false, apierrors.NewNotFound(simResource(key), key.name)
	}
	if p := preconditions; p != nil && p.UID != nil && *p.UID != stored.GetUID() {
		return false, simConflict(key, "the UID in the precondition differs")
	}
	if p := preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion() {
		return false, simConflict(key, "the resourceVersion in the precondition differs")
	}
	pod, isPod := stored.(*corev1.Pod)
	stays := len(stored.GetFinalizers()) > 0 || (isPod && pod.Spec.NodeName != "")
	switch {
	case stays && stored.GetDeletionTimestamp() != nil:
		return false, nil
	case stays:
		next := simCopy(stored)
		now := fixture.WholeSecond(a.now())
		next.SetDeletionTimestamp(&now)
		a.put(next)
	default:
		a.remove(key)
	}
	return true, nil
}
