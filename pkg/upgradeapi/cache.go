package upgradeapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

const (
	// cacheLag is how long a gr that was written here is not read from the cache: many
	// times the delay of a watch.
	cacheLag = 10 * time.Second
	// maxEncoded is how many encoded objects are kept.
	maxEncoded = 256
)

// objectCache serves objects from the manager's cache, as the API server would send them.
type objectCache struct {
	// reader is the cache, nil for none.
	reader client.Reader
	// written holds the grs that were written here recently.
	written *cache.LRUExpireCache
	// encoded holds encoded objects by version.
	encoded *lru.Cache
}

func newObjectCache(reader client.Reader, clk clock.PassiveClock) *objectCache {
	return &objectCache{reader: reader, written: cache.NewLRUExpireCacheWithClock(callers, clk), encoded: lru.New(maxEncoded)}
}

// wrote disables the cache for a gr during a write and cacheLag after it.
func (o *objectCache) wrote(name string, within time.Duration) {
	o.written.Add(name, true, within+cacheLag)
}

// current reports whether a gr may be served from the cache.
func (o *objectCache) current(name string) bool {
	_, recently := o.written.Get(name)
	return o.reader != nil && !recently
}

// gr returns a gr, nil if the cache lacks it or may be stale.
func (o *objectCache) gr(ctx context.Context, name string) *topsv1.GcuResource {
	gr := &topsv1.GcuResource{}
	if !o.current(name) || o.reader.Get(ctx, client.ObjectKey{Name: name}, gr) != nil {
		return nil
	}
	return gr
}

// daemonSet returns the DaemonSet of a gr with these labels, nil as gr does.
func (o *objectCache) daemonSet(ctx context.Context, name string, labels client.MatchingLabels) *appsv1.DaemonSet {
	gr, list := o.gr(ctx, name), &appsv1.DaemonSetList{}
	if gr == nil || o.reader.List(ctx, list, labels) != nil {
		return nil
	}
	list.Items = slices.DeleteFunc(list.Items, func(ds appsv1.DaemonSet) bool { return !daemonset.IsOf(&ds, gr) })
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[preferred(list.Items)]
}

// preferred returns the index of the DaemonSet to be shown of a component: one that stays if another one leaves its nodes,
// as after the component was renamed, and the first by namespace and name. There is at least one.
func preferred(sets []appsv1.DaemonSet) int {
	best := 0
	for i := range sets {
		if comparePreference(&sets[i], &sets[best]) < 0 {
			best = i
		}
	}
	return best
}

func comparePreference(a, b *appsv1.DaemonSet) int {
	if leaves := daemonset.IsLeaving(a); leaves != daemonset.IsLeaving(b) {
		if leaves {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// version identifies one version of an object, unless a backup of etcd was restored: the versions after it are given out again.
type version struct {
	kind    schema.GroupVersionKind
	uid     types.UID
	version string
}

// encodedObject is an object and what it is encoded as.
type encodedObject struct {
	object client.Object
	print  printed
}

// encode returns an object as the API server would send it; it must not be changed afterwards. Each version is encoded once:
// reads are many, changes are few.
func (o *objectCache) encode(object client.Object, kind schema.GroupVersionKind) (printed, error) {
	at := version{kind, object.GetUID(), object.GetResourceVersion()}
	if known, found := o.encoded.Get(at); found {
		if known := known.(encodedObject); equality.Semantic.DeepEqual(known.object, object) {
			return known.print, nil
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	u.SetManagedFields(nil)
	print, err := inPrint(u)
	if err != nil {
		return nil, err
	}
	o.encoded.Add(at, encodedObject{object, print})
	return print, nil
}
