package daemonupdater

import (
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simView is the cache of one process: per kind, the state some changes ago. Kinds are watched
// independently, so one may lag far behind another.
type simView struct {
	api     *simAPI
	at      map[string]int // changes applied, by kind
	objects map[simKey]client.Object
	keys    map[string][]simKey
	index   map[simKey][]string // by controllerUID
}

// simEvent is an event of an informer: before is nil for a new object, after for a deleted one.
type simEvent struct{ before, after client.Object }

func newSimView(api *simAPI) *simView {
	return &simView{api: api, at: map[string]int{}, objects: map[simKey]client.Object{}, keys: map[string][]simKey{}, index: map[simKey][]string{}}
}

func (v *simView) behind(kind string) int { return len(v.api.log[kind]) - v.at[kind] }

// advance applies n more changes of a kind at once. Intermediate states of an object are dropped,
// as by an informer that lists again.
func (v *simView) advance(kind string, n int) []simEvent {
	log := v.api.log[kind]
	changes := log[v.at[kind]:min(len(log), v.at[kind]+n)]
	v.at[kind] += len(changes)
	var order []simKey
	before, last := map[simKey]client.Object{}, map[simKey]client.Object{}
	for _, c := range changes {
		if _, seen := last[c.key]; !seen {
			order = append(order, c.key)
			before[c.key] = v.objects[c.key]
		}
		last[c.key] = c.object
	}
	var events []simEvent
	for _, key := range order {
		v.set(key, last[key])
		e := simEvent{before[key], last[key]}
		if e.before != nil && e.after != nil && e.before.GetUID() != e.after.GetUID() {
			events = append(events, simEvent{before: e.before})
			e.before = nil
		}
		if e.before != nil || e.after != nil {
			events = append(events, e)
		}
	}
	return events
}

func (v *simView) set(key simKey, object client.Object) {
	_, had := v.objects[key]
	i, _ := slices.BinarySearchFunc(v.keys[key.kind], key, compareSimKeys)
	switch {
	case object == nil && had:
		delete(v.objects, key)
		v.keys[key.kind] = slices.Delete(v.keys[key.kind], i, i+1)
	case object != nil:
		v.objects[key], v.index[key] = object, indexByController(object)
		if !had {
			v.keys[key.kind] = slices.Insert(v.keys[key.kind], i, key)
		}
	}
}

func (v *simView) get(key types.NamespacedName, object client.Object) error {
	k := simKey{simKind(object), key.Namespace, key.Name}
	stored, ok := v.objects[k]
	if !ok {
		return apierrors.NewNotFound(simResource(k), k.name)
	}
	simInto(object, stored)
	return nil
}

// list fills a typed list with copies, by namespace, labels, and the controller index.
func (v *simView) list(list client.ObjectList, opts []client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	owner := ""
	if options.FieldSelector != nil {
		value, ok := options.FieldSelector.RequiresExactMatch(controllerUID)
		if !ok {
			return fmt.Errorf("the cache has no index for %s", options.FieldSelector)
		}
		owner = value
	}
	var found []client.Object
	for _, key := range v.keys[simKind(list)] {
		object := v.objects[key]
		switch {
		case options.Namespace != "" && key.namespace != options.Namespace:
		case owner != "" && !slices.Contains(v.index[key], owner):
		case options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())):
		default:
			found = append(found, object)
		}
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(found), len(found)))
	for i, object := range found {
		items.Index(i).Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
	}
	return nil
}
