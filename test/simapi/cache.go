package simapi

import (
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Cache is the cache of one process: per kind, the state some changes ago. Kinds are watched
// independently, so one may lag far behind another.
type Cache struct {
	API *API
	// At is how many changes were applied, by kind.
	At      map[string]int
	Objects map[Key]client.Object
	Keys    map[string][]Key

	indexers map[string]client.IndexerFunc
	indexed  map[string]map[Key][]string // by indexer
	// keep reduces a copy of an object to what the cache keeps of it; nil: all.
	keep toolscache.TransformFunc
}

// Event is an event of an informer: Before is nil for a new object, After for a deleted one.
type Event struct{ Before, After client.Object }

// Concerns returns the versions of the object that a watch of its kind handles, none if the
// predicate drops the event.
func (e Event) Concerns(kind client.Object, matters predicate.Predicate) (objects []client.Object) {
	for _, object := range []client.Object{e.Before, e.After} {
		if object != nil && KindOf(object) == KindOf(kind) {
			objects = append(objects, object)
		}
	}
	if len(objects) == 2 && !matters.Update(event.UpdateEvent{ObjectOld: e.Before, ObjectNew: e.After}) {
		return nil
	}
	return objects
}

// NewCache returns an empty cache with indexes, which keeps of objects what keep leaves of them; nil: all.
func NewCache(api *API, indexers map[string]client.IndexerFunc, keep toolscache.TransformFunc) *Cache {
	c := &Cache{API: api, keep: keep, At: map[string]int{}, Objects: map[Key]client.Object{}, Keys: map[string][]Key{}, indexers: indexers, indexed: map[string]map[Key][]string{}}
	for field := range indexers {
		c.indexed[field] = map[Key][]string{}
	}
	return c
}

// Live returns the true state, with the fields that a live list can select.
func (a *API) Live(indexers map[string]client.IndexerFunc) *Cache {
	return &Cache{Objects: a.Objects, Keys: a.Keys, indexers: indexers}
}

// Behind returns how many changes of a kind the cache lacks.
func (c *Cache) Behind(kind string) int { return len(c.API.Log[kind]) - c.At[kind] }

// Advance applies n more changes of a kind at once. Intermediate states of an object are dropped,
// as by an informer that lists again.
func (c *Cache) Advance(kind string, n int) []Event {
	log := c.API.Log[kind]
	changes := log[c.At[kind]:min(len(log), c.At[kind]+n)]
	c.At[kind] += len(changes)
	var order []Key
	before, last := map[Key]client.Object{}, map[Key]client.Object{}
	for _, change := range changes {
		if _, seen := last[change.Key]; !seen {
			order = append(order, change.Key)
			before[change.Key] = c.Objects[change.Key]
		}
		last[change.Key] = change.Object
	}
	for _, key := range order {
		last[key] = c.kept(last[key])
	}
	var events []Event
	for _, key := range order {
		c.set(key, last[key])
		e := Event{before[key], last[key]}
		if e.Before != nil && e.After != nil && e.Before.GetUID() != e.After.GetUID() {
			events = append(events, Event{Before: e.Before})
			e.Before = nil
		}
		if e.Before != nil || e.After != nil {
			events = append(events, e)
		}
	}
	return events
}

// kept returns what the cache keeps of an object, nil of one that is gone.
func (c *Cache) kept(object client.Object) client.Object {
	if object == nil || c.keep == nil {
		return object
	}
	kept, err := c.keep(object.DeepCopyObject())
	if err != nil {
		panic(err)
	}
	return kept.(client.Object)
}

func (c *Cache) set(key Key, object client.Object) {
	_, had := c.Objects[key]
	i, _ := slices.BinarySearchFunc(c.Keys[key.Kind], key, CompareKeys)
	switch {
	case object == nil && had:
		delete(c.Objects, key)
		c.Keys[key.Kind] = slices.Delete(c.Keys[key.Kind], i, i+1)
	case object != nil:
		c.Objects[key] = object
		for field, values := range c.indexers {
			c.indexed[field][key] = values(object)
		}
		if !had {
			c.Keys[key.Kind] = slices.Insert(c.Keys[key.Kind], i, key)
		}
	}
}

// Get returns an object, a deep copy unless an option says otherwise.
func (c *Cache) Get(key types.NamespacedName, object client.Object, opts ...client.GetOption) error {
	k := Named(KindOf(object), key.Namespace, key.Name)
	stored, ok := c.Objects[k]
	if !ok {
		return apierrors.NewNotFound(Resource(k), k.Name)
	}
	read(object, stored, (&client.GetOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy)
	return nil
}

// read makes dst a copy of src.
func read(dst, src client.Object, shallow *bool) {
	if ptr.Deref(shallow, false) {
		reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
	} else {
		Into(dst, src)
	}
}

// List fills a typed list like Get, by namespace, labels, and an index.
func (c *Cache) List(list client.ObjectList, opts []client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	field, value := "", ""
	if options.FieldSelector != nil {
		asked := options.FieldSelector.Requirements()[0]
		if field, value = asked.Field, asked.Value; c.indexers[field] == nil {
			return fmt.Errorf("no index for %s", options.FieldSelector)
		}
	}
	var found []client.Object
	for _, key := range c.Keys[KindOf(list)] {
		object := c.Objects[key]
		switch {
		case options.Namespace != "" && key.Namespace != options.Namespace:
		case field != "" && !slices.Contains(c.valuesOf(field, key), value):
		case options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())):
		default:
			found = append(found, object)
		}
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(found), len(found)))
	for i, object := range found {
		read(items.Index(i).Addr().Interface().(client.Object), object, options.UnsafeDisableDeepCopy)
	}
	return nil
}

// valuesOf returns the values of an object in an index.
func (c *Cache) valuesOf(field string, key Key) []string {
	if c.indexed == nil {
		return c.indexers[field](c.Objects[key])
	}
	return c.indexed[field][key]
}
