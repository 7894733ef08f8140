package daemonupdater

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A DaemonSet is deleted and created again under its name. What it owned, which includes the rollout of a group of its
// own, is deleted by the garbage collector some time later; the new one has nothing to do with it. Or it is orphaned:
// it stays without an owner until the controller of the new DaemonSet adopts it, one after the other.

// recreateSet deletes a DaemonSet, with or without orphans, and creates it again: that of a gr at once, another one
// after a while.
func (w *simWorld) recreateSet(key simapi.Key, orphans bool) {
	old := simapi.Get[*appsv1.DaemonSet](w.api, key)
	if old == nil {
		return
	}
	w.say("admin: %s is deleted and created again, its pods become orphans: %v", key, orphans)
	w.api.Remove(key)
	delete(w.seen, key)
	if orphans {
		w.orphan(old.UID)
	}
	if w.gone == nil {
		w.gone = map[simapi.Key]*appsv1.DaemonSet{}
	}
	w.gone[key] = old
	g := w.groupOfSet(key.Name)
	if g == nil || g.spec != nil || w.accidents == nil || w.accidents.IntN(2) == 0 {
		w.recreateMissing()
		return
	}
	w.later(time.Duration(w.accidents.IntN(90))*time.Second, w.recreateMissing)
}

// orphan takes the owner away from what a DaemonSet owns.
func (w *simWorld) orphan(owner types.UID) {
	for _, kind := range []string{simPods, simRevisions, simRollouts} {
		for _, object := range simapi.All[client.Object](w.api, kind) {
			if ref := metav1.GetControllerOfNoCopy(object); ref != nil && ref.UID == owner {
				simapi.Edit(w.api, simapi.KeyOf(object), func(o client.Object) { o.SetOwnerReferences(nil) })
			}
		}
	}
}

// recreateMissing creates the DaemonSets again that were deleted, also those that a restored backup does not have.
func (w *simWorld) recreateMissing() {
	for _, g := range w.groups {
		for _, key := range g.sets {
			old := w.gone[key]
			if w.api.Objects[key] != nil || old == nil {
				continue
			}
			next := simapi.Copy(old)
			next.UID, next.Generation, next.Status = "", 1, appsv1.DaemonSetStatus{}
			w.api.Put(next)
			w.adopted(old.UID, next.UID)
			w.say("admin: %s is created again", key)
		}
	}
}

// adopt has a DaemonSet adopt the orphans that it selects, and reports whether there are no more. Its controller creates
// no pods before, nor has it observed the DaemonSet: so its target is not known yet.
func (w *simWorld) adopt(ds *appsv1.DaemonSet) bool {
	all := true
	for _, kind := range []string{simRevisions, simPods} {
		for _, key := range w.api.Keys[kind] {
			if key.Namespace != ds.Namespace {
				continue
			}
			object := w.api.Objects[key]
			if !simAdopts(ds, object) {
				continue
			}
			if kind == simPods && !w.soon() {
				all = false
				continue
			}
			simapi.Edit(w.api, simapi.KeyOf(object), func(o client.Object) {
				o.SetOwnerReferences(fixture.ControlledBy(appsv1.SchemeGroupVersion.String(), observed.KindDaemonSet, ds.Name, ds.UID))
			})
			w.say("%s adopts %s", ds.Name, object.GetName())
			w.expect(ds)
		}
	}
	return all
}

// simAdopts reports whether a DaemonSet adopts an object.
func simAdopts(ds *appsv1.DaemonSet, object client.Object) bool {
	return object.GetNamespace() == ds.Namespace && metav1.GetControllerOfNoCopy(object) == nil && object.GetDeletionTimestamp() == nil &&
		labels.SelectorFromSet(ds.Spec.Selector.MatchLabels).Matches(labels.Set(object.GetLabels()))
}

// collectOrphans acts as the garbage collector on what belongs to a DaemonSet that is gone, or to a former
// one of its name: revisions at once, pods and rollouts soon.
func (w *simWorld) collectOrphans() {
	if w.accidents == nil {
		return
	}
	dangles := func(object client.Object) bool {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref == nil || ref.Kind != observed.KindDaemonSet {
			return false
		}
		ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, object.GetNamespace(), ref.Name))
		return ds == nil || ds.UID != ref.UID
	}
	for _, r := range simapi.All[*appsv1.ControllerRevision](w.api, simRevisions) {
		if r.Namespace == simNamespace && dangles(r) {
			w.api.Remove(simapi.KeyOf(r))
		}
	}
	for _, pod := range w.setPods() {
		if pod.DeletionTimestamp == nil && dangles(pod) && w.soon() {
			_, _ = w.api.Delete(simapi.KeyOf(pod), nil) // it exists
		}
	}
	for _, r := range simapi.All[*topsv1.DaemonRollout](w.api, simRollouts) {
		if dangles(r) && w.soon() {
			w.collectRollout(r)
		}
	}
}

// collectRollout deletes the rollout of a DaemonSet that is gone, and with it all slots.
func (w *simWorld) collectRollout(r *topsv1.DaemonRollout) {
	w.say("the garbage collector deletes rollout %s", r.Name)
	slots := simSlots(r)
	w.api.Remove(simapi.KeyOf(r))
	for _, g := range w.groups {
		if g.id.RolloutKey("gcu-system").Name == r.Name {
			w.noteLost(g, slots)
		}
	}
}
