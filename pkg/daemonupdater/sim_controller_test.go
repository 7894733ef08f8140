package daemonupdater

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simController is what the DaemonSet controller knows of pods and nodes. In half of the seeds that
// is old, as it is when its watches lag. It creates pods on nodes that are gone or tainted since,
// late where a pod is gone, and deletes pods late. Like that of Kubernetes it does nothing for a
// DaemonSet until its list of pods shows what it did last; but it may start again, with lists that
// are older still, and then it creates a second pod beside one.
type simController struct {
	lags  *rand.Rand // nil in a seed in which it sees the true state at once
	cache *simapi.Cache
	// expects is how far its list of pods must be until it acts for a DaemonSet, by that.
	expects map[simapi.Key]int
	// stalled is until when a watch brings nothing, by kind.
	stalled map[string]time.Time
}

// simListed are the kinds that the controller lists.
var simListed = []string{simPods, simNodes}

func newSimController(seed uint64) (c simController) {
	if rng := rand.New(rand.NewPCG(seed, 13)); rng.IntN(2) == 0 {
		c.lags = rng
	}
	return c
}

// restart starts the controller, which knows nothing yet.
func (c *simController) restart(api *simapi.API) {
	c.cache, c.expects, c.stalled = simapi.NewCache(api, nil, nil), map[simapi.Key]int{}, map[string]time.Time{}
}

// listsAdvance lets the lists of the controller catch up to some degree.
func (w *simWorld) listsAdvance() {
	c := &w.controller
	if c.lags == nil {
		return
	}
	old := 0
	if !w.calm && c.lags.IntN(25) == 0 {
		w.say("the DaemonSet controller starts again")
		c.restart(w.api)
		old = c.lags.IntN(60)
	}
	for _, kind := range simListed {
		behind := c.cache.Behind(kind)
		switch {
		case w.calm || c.cache.At[kind] == 0:
			c.cache.Advance(kind, max(behind-old, w.seesLoss[kind])) // an API server that runs since a restore knows nothing older
		case w.now.Before(c.stalled[kind]):
		case c.lags.IntN(30) == 0:
			c.stalled[kind] = w.now.Add(time.Duration(5+c.lags.IntN(120)) * time.Second)
		case c.lags.IntN(3) > 0:
			c.cache.Advance(kind, behind)
		default:
			c.cache.Advance(kind, c.lags.IntN(behind+1))
		}
	}
}

// listed returns the objects as the controller sees them, and their keys by kind.
func (w *simWorld) listed() (map[simapi.Key]client.Object, map[string][]simapi.Key) {
	if w.controller.lags == nil {
		return w.api.Objects, w.api.Keys
	}
	return w.controller.cache.Objects, w.controller.cache.Keys
}

// awaits reports whether the controller does not see yet what it did last for a DaemonSet.
func (w *simWorld) awaits(set simapi.Key) bool {
	return w.controller.lags != nil && w.controller.cache.At[simPods] < w.controller.expects[set]
}

// expect notes that the controller has changed a pod of a DaemonSet.
func (w *simWorld) expect(ds *appsv1.DaemonSet) {
	w.controller.expects[simapi.KeyOf(ds)] = len(w.api.Log[simPods])
}

// daemonSetController writes ControllerRevisions, the observed generation and missing pods, by
// the version of the DaemonSet it has seen, which may be old.
func (w *simWorld) daemonSetController(ds *appsv1.DaemonSet) {
	key := simapi.KeyOf(ds)
	if w.seen[key] == nil || w.calm || w.chance(2) {
		w.seen[key] = ds
	}
	seen := w.seen[key]
	if seen.UID != ds.UID {
		return
	}
	adopted := w.adopt(seen)
	hash := w.writeHistory(seen)
	if adopted && !w.awaits(key) {
		objects, keys := w.listed()
		for _, node := range slices.Clone(keys[simNodes]) {
			w.managePod(seen, objects[node].(*corev1.Node), hash)
		}
	}
	if adopted && ds.Status.ObservedGeneration < seen.Generation && (w.calm || w.chance(2)) {
		simapi.Edit(w.api, key, func(d *appsv1.DaemonSet) { d.Status.ObservedGeneration = seen.Generation })
	}
}

// managePod creates a missing pod, and replaces an outdated one under RollingUpdate.
func (w *simWorld) managePod(ds *appsv1.DaemonSet, node *corev1.Node, hash string) {
	pod := w.managedPod(ds, node.Name)
	switch {
	case pod != nil && pod.DeletionTimestamp == nil && !simKeeps(node, ds):
		w.controllerDeletes(ds, pod)
	case pod == nil && w.api.Objects[w.freeName(simapi.KeyOf(ds), node.Name)] == nil && simAdmits(node, ds) && (w.calm || w.rng.IntN(3) > 0):
		w.creates(ds, node.Name, hash)
	case pod != nil && ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType &&
		pod.DeletionTimestamp == nil && daemonset.RevisionHash(pod) != hash && w.chance(4):
		w.say("the DaemonSet controller replaces pod %s", pod.Name)
		delete(w.ran, simRan{ds.UID, node.UID}) // by its own strategy
		w.vague = true
		w.controllerDeletes(ds, pod)
	}
}

// creates creates a pod, whatever is on the node.
func (w *simWorld) creates(ds *appsv1.DaemonSet, node, hash string) {
	stored := simapi.Get[*corev1.Node](w.api, simNodeKey(node))
	switch kept := w.owned(ds, w.podsOn(simapi.KeyOf(ds), node)); {
	case len(kept) > 0:
		w.say("the DaemonSet controller creates a second pod beside %s, which it does not see", kept[0].Name)
	case stored == nil:
		w.say("the DaemonSet controller creates a pod of %s on node %s, which is gone", ds.Name, node)
	case !simAdmits(stored, ds):
		w.say("the DaemonSet controller creates a pod of %s on node %s, which does not admit it any more", ds.Name, node)
	}
	w.api.Put(w.admit(w.newPod(ds, node, hash)))
	w.expect(ds)
}

// controllerDeletes deletes a pod that the controller lists: names are not used again in Kubernetes.
func (w *simWorld) controllerDeletes(ds *appsv1.DaemonSet, pod *corev1.Pod) {
	if stored := simapi.Get[*corev1.Pod](w.api, simapi.KeyOf(pod)); stored != nil && stored.UID == pod.UID {
		_, _ = w.api.Delete(simapi.KeyOf(pod), nil) // it exists
	}
	w.expect(ds)
}

// owned returns those of some pods that the controller counts: not those that terminate and whose
// containers have ended.
func (w *simWorld) owned(ds *appsv1.DaemonSet, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return !metav1.IsControlledBy(pod, ds) || simEnded(pod) && pod.DeletionTimestamp != nil
	})
}

// managedPod returns the pod of a DaemonSet on a node that its controller keeps, nil if it has to
// create one. The controller deletes failed pods, with a delay, and those beyond the first.
func (w *simWorld) managedPod(ds *appsv1.DaemonSet, node string) *corev1.Pod {
	objects, _ := w.listed()
	kept := w.owned(ds, w.podsIn(objects, simapi.KeyOf(ds), node))
	for _, pod := range kept {
		if simEnded(pod) && w.soon() {
			w.controllerDeletes(ds, pod)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	slices.SortStableFunc(kept, func(a, b *corev1.Pod) int {
		bound := func(p *corev1.Pod) int { return min(1, len(p.Spec.NodeName)) }
		return cmp.Or(cmp.Compare(bound(b), bound(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range kept[1:] {
		if pod.DeletionTimestamp == nil && kept[0].DeletionTimestamp == nil && w.soon() {
			w.say("the DaemonSet controller deletes pod %s, which is one too many", pod.Name)
			w.controllerDeletes(ds, pod)
		}
	}
	return kept[0]
}

// soon is true for what a controller does with a delay.
func (w *simWorld) soon() bool { return w.calm || w.accidents == nil || w.accidents.IntN(4) == 0 }
