package daemonupdater

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simAccidents are rare disturbances, in a third of the seeds: etcd is restored from a backup, a
// DaemonSet is deleted and created again with or without its pods, a DaemonSet has odd pods, no manager works for long, and nodes join.
type simAccidents struct {
	accidents *rand.Rand // nil in a seed without any
	saved     *simBackup // nil if there is none
	// lost are the slots that a restored backup took back. Managers whose caches still show them may
	// go on with these nodes, and no ledger counts them: that is all by which the budget may be
	// exceeded. So are those that a manager gives back while its caches show what is lost, such as the
	// end of an operation: what is at work there counts as in flight as soon as it is seen. seesLoss is
	// how far a cache must be, by kind, to show none of it any more.
	lost     map[simLost]bool
	seesLoss map[string]int
	// wereLost are all that ever were lost: a manager that still sees such a slot may delete under it
	// though the node was started again.
	wereLost map[simLost]bool
	// takenAway are the pods that somebody else deleted.
	takenAway map[types.UID]bool
	// restores counts the backups that were restored. reached is the latest version before one of them: those up to it are
	// given twice, so that the precondition of a request of before may fit what an object became since.
	restores, reached int
	// away: until then no manager works.
	away time.Time
	// gone are DaemonSets that were deleted to be created again, as they were last.
	gone map[simapi.Key]*appsv1.DaemonSet
}

// managersAway reports whether no manager works.
func (w *simWorld) managersAway() bool { return w.now.Before(w.away) && !w.calm }

// simLost is a node of a group.
type simLost struct {
	group observed.Group
	node  string
}

func newSimAccidents(seed uint64) simAccidents {
	a := simAccidents{lost: map[simLost]bool{}, wereLost: map[simLost]bool{}, takenAway: map[types.UID]bool{}}
	if rng := rand.New(rand.NewPCG(seed, 6)); rng.IntN(3) == 0 {
		a.accidents = rng
	}
	return a
}

// haveAccidents draws accidents.
func (w *simWorld) haveAccidents() {
	if w.accidents == nil || w.api.Schema != nil {
		return
	}
	switch n := w.accidents.IntN(100); {
	case n < 4:
		w.saved = w.backUp()
	case n < 7 && w.saved != nil:
		w.restore(w.saved)
	case n < 9:
		w.recreateSet(simPick(w.accidents, simPick(w.accidents, w.groups...).sets...), w.accidents.IntN(2) == 0)
	case n < 13:
		w.disturbWith(w.evictPod)
	case n < 17:
		w.disturbWith(w.addSurplus)
	case n < 18 && !w.managersAway():
		w.goAway()
	case n < 20 && len(w.hosts) < simMostHosts:
		w.join()
	}
}

// simMostHosts bounds the hosts of a seed in which some join.
const simMostHosts = 12

// join adds a host, whose node joins the cluster.
func (w *simWorld) join() {
	name := fmt.Sprintf("n%02d", len(w.hosts))
	h := &simHost{name: name, up: true, since: w.now, labels: w.drawLabels(name), skew: w.drawSkew()}
	w.hosts = append(w.hosts, h)
	w.say("node %s joins", name)
	w.addMachine(h)
	w.addNode(h)
}

// managedFor is for how long something has lasted since managers work again: no deadline runs while
// none does.
func (w *simWorld) managedFor(since time.Time) time.Duration {
	return min(w.now.Sub(since), w.now.Sub(w.away))
}

// goAway lets no manager work for a while; they are suspended, or killed and started later.
func (w *simWorld) goAway() {
	w.away = w.now.Add(time.Duration(10+w.accidents.IntN(80)) * time.Minute)
	w.say("no manager works until %s", w.away.Sub(fixture.Epoch))
	if w.accidents.IntN(2) == 0 {
		for _, m := range w.managers {
			m.die()
		}
	}
}

func (w *simWorld) disturbWith(what func(*corev1.Pod)) {
	if pods := w.setPods(); len(pods) > 0 {
		what(simPick(w.accidents, pods...))
	}
}

// simBackup is a backup of etcd, and of what the model knows besides.
type simBackup struct {
	counter int
	objects map[simapi.Key]client.Object
	keys    map[string][]simapi.Key
	groups  []*simGroup
	// accounts have the limits with which nodes were given their slots.
	accounts map[observed.Group]simAccount
	// ran is what nodes had, with the gate.
	ran map[simRan][]string
}

func simCloneKeys(keys map[string][]simapi.Key) map[string][]simapi.Key {
	clone := make(map[string][]simapi.Key, len(keys))
	for kind, list := range keys {
		clone[kind] = slices.Clone(list)
	}
	return clone
}

func (w *simWorld) backUp() *simBackup {
	w.say("etcd is backed up at %d", w.api.Counter)
	accounts := map[observed.Group]simAccount{}
	for id, a := range w.accounts {
		accounts[id] = simAccount{limit: maps.Clone(a.limit), pools: maps.Clone(a.pools)}
	}
	return &simBackup{w.api.Counter, maps.Clone(w.api.Objects), simCloneKeys(w.api.Keys), slices.Clone(w.groups), accounts, maps.Clone(w.ran)}
}

// reopen gives nodes back the limits of their slots that were forgotten since, with the rollout of their group.
func (b *simBackup) reopen(w *simWorld) {
	for id, was := range b.accounts {
		a := w.account(id)
		for node, limit := range was.limit {
			if _, known := a.limit[node]; !known {
				a.limit[node], a.pools[node] = limit, was.pools[node]
			}
		}
	}
}

// rewind sets the objects and the counter of the API server back: versions come again, with other contents. The
// caches learn it from the log, each when its watch is started again.
func (b *simBackup) rewind(a *simapi.API) {
	for _, kind := range simKinds {
		keys := slices.Concat(a.Keys[kind], b.keys[kind])
		slices.SortFunc(keys, simapi.CompareKeys)
		for _, key := range slices.Compact(keys) {
			if a.Objects[key] != b.objects[key] {
				a.Log[kind] = append(a.Log[kind], simapi.Change{Key: key, Object: b.objects[key]})
			}
		}
	}
	a.Lost += a.Counter - b.counter
	a.Counter, a.Objects, a.Keys = b.counter, maps.Clone(b.objects), simCloneKeys(b.keys)
}

// simRestoring is how long the API server is away while etcd is restored.
const simRestoring = 5 * time.Second

// restore restores a backup of etcd. The containers of pods that were gone start again.
func (w *simWorld) restore(b *simBackup) {
	w.say("etcd is restored as of %d, it was at %d", b.counter, w.api.Counter)
	runs := map[types.UID]bool{}
	for _, pod := range w.setPods() {
		runs[pod.UID] = pod.DeletionTimestamp == nil && !simEnded(pod)
	}
	slots := map[observed.Group][]topsv1.NodeSlot{}
	for _, g := range w.groups {
		if r := w.rolloutOf(g.id); r != nil {
			slots[g.id] = simSlots(r)
		}
	}
	for _, m := range w.managers {
		m.healthyAt, m.restored = nil, w.now // of a time that is taken back
		if m.pass != nil {
			m.pass.blind = true // it read what is lost
		}
	}
	operated := w.operatedNodes()
	w.restores, w.reached = w.restores+1, max(w.reached, w.api.Counter)
	b.rewind(w.api)
	b.reopen(w)
	for _, account := range w.accounts {
		clear(account.started) // the ledger says again when they were started before
		clear(account.completed)
	}
	w.rewindOperations(operated)
	w.rewindGate(b.ran)
	w.now, w.groups = w.now.Add(simRestoring), slices.Clone(b.groups)
	w.recreateMissing()
	clear(w.seen)
	w.seesLoss = map[string]int{}
	for _, kind := range simKinds {
		w.seesLoss[kind] = len(w.api.Log[kind])
	}
	for _, g := range w.groups {
		w.loseSlots(g, slots[g.id])
		w.sinceOTA(g)
	}
	w.settleAccounts() // a node whose pods are back was taken down by nobody, before they start again
	for _, pod := range w.setPods() {
		if !runs[pod.UID] && simPodReady(pod) {
			w.setPodReady(pod, corev1.ConditionFalse, w.host(daemonset.NodeName(pod)).clock(w))
		}
	}
}

// loseSlots notes the slots of a group that were taken back, and no longer counts nodes that have
// none.
func (w *simWorld) loseSlots(g *simGroup, were []topsv1.NodeSlot) {
	if g.spec != nil {
		first := simapi.Get[*appsv1.DaemonSet](w.api, g.sets[0]).Annotations
		g.spec.revision = cmp.Or(first[topsv1.AnnotationRejectedRevision], first[topsv1.AnnotationRevision])
	}
	w.noteLost(g, were)
}

// noteLost notes which slots a group has no longer, and does not count nodes that have none.
func (w *simWorld) noteLost(g *simGroup, were []topsv1.NodeSlot) {
	has := func(node string) bool {
		r := w.rolloutOf(g.id)
		return r != nil && slices.ContainsFunc(simSlots(r), func(s topsv1.NodeSlot) bool { return s.Node == node })
	}
	for _, s := range were {
		same := func(now topsv1.NodeSlot) bool {
			return now.Node == s.Node && now.PodUID == s.PodUID && now.Operation == s.Operation
		}
		if r := w.rolloutOf(g.id); r == nil || !slices.ContainsFunc(simSlots(r), same) {
			w.lost[simLost{g.id, s.Node}], w.wereLost[simLost{g.id, s.Node}] = true, true
		}
	}
	maps.DeleteFunc(w.account(g.id).down, func(node string, _ *simDown) bool { return !has(node) })
}

// sinceOTA notes since when every member of a group has the strategy OTA, after a restored backup.
func (w *simWorld) sinceOTA(g *simGroup) {
	g.ota = w.now
	for _, key := range g.sets {
		if simapi.Get[*appsv1.DaemonSet](w.api, key).Annotations[topsv1.AnnotationUpdateStrategy] != "OTA" {
			g.ota = time.Time{}
		}
	}
}

// isBlind reports whether a cache still shows something that a restored backup took back.
func (m *simManager) isBlind() bool {
	for kind, n := range m.w.seesLoss {
		if m.cache.At[kind] < n {
			return true
		}
	}
	return false
}

// fitsByChance reports whether a pass that read what is lost may name an object's version, which another one had before.
func (w *simWorld) fitsByChance(pass *simPass, o client.Object) bool {
	version, err := strconv.Atoi(o.GetResourceVersion())
	return err == nil && pass.blind && version <= w.reached
}

// storedAgain reports whether a slot is that of a ledger which a restored backup took back and which had the version of the one
// that a write replaces: a manager whose cache still shows it writes it once more. That starts no node,
// so what the pass sees besides need not allow it.
func (w *simWorld) storedAgain(replaced *topsv1.DaemonRollout, slot *topsv1.NodeSlot) bool {
	key := simapi.KeyOf(replaced)
	return slices.ContainsFunc(w.api.Log[simRollouts], func(c simapi.Change) bool {
		r, is := c.Object.(*topsv1.DaemonRollout)
		return is && c.Key == key && r.UID == replaced.UID && r.ResourceVersion == replaced.ResourceVersion && simHasSlot(r, slot)
	})
}

// excuseBlind notes a slot that is given back by a pass that may have seen what is lost.
func (w *simWorld) excuseBlind(pass *simPass, node string) {
	if pass.blind {
		w.lost[simLost{pass.group, node}], w.wereLost[simLost{pass.group, node}] = true, true
	}
}
