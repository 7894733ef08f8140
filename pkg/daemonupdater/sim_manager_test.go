package daemonupdater

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/transform"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simManager is one replica of the manager: the production Reconciler with a cache, a work queue
// and the leader lease.
type simManager struct {
	w    *simWorld
	name string
	// skew is how far its clock is ahead, since it jumped by leap.
	skew, leap time.Duration
	// leaps are the jumps of its clock, by when they were, and restored is when etcd was restored.
	leaps    map[time.Time]time.Duration
	restored time.Time
	jumped   time.Time
	r        *Reconciler
	cache    *simapi.Cache
	rng      *rand.Rand // of the cache, which advances in the goroutine of the reconcile

	events  []func() // of the cache, not passed to the queue yet
	ready   map[observed.Group]bool
	timers  map[observed.Group]time.Time
	limiter workqueue.TypedRateLimiter[observed.Group]

	seen simSeen

	pass *simPass // nil when idle
	// rogueUntil: it has lost the lease, but does not notice until then.
	rogueUntil time.Time

	// sawReady are the revisions of the pods that it last saw ready since it was started, by their place.
	sawReady map[simSpot]string
	// sawBound are the revisions of the last bound pods that it saw since then, before it saw one ready that is no pod of a former Node
	// (sawWork). Its lists may be stale.
	sawBound map[simRan]string
	sawWork  map[simRan]bool
	// healthyAt is when a pass over a group last saw a node healthy. readyAt is when a pass first saw a node Ready since
	// the time that its condition names: what changed while the manager was away seems to change then.
	healthyAt map[simLost]time.Time
	readyAt   map[string]simSighting

	operator simOperator
	frozen   time.Time // the process is suspended until then

	mu     sync.Mutex
	parked []*simCall
}

// simActor is a reconcile in progress.
type simActor struct {
	dead  bool      // the process is gone: nothing reaches the API server any more
	until time.Time // it sleeps until then
}

// simPass is one Reconcile of a group in progress, with what it saw.
type simPass struct {
	simActor
	group observed.Group
	done  bool
	blind bool // its caches showed what a restored backup took back
	// overtaken: another manager stored a ledger of the group since it began.
	overtaken bool
	result    ctrl.Result
	err       error

	// at is when it decided, clock the same by the clock of its manager; that showed begun when it began.
	at, clock, begun time.Time
	w                *simWorld
	m                *simManager
	sets             []*appsv1.DaemonSet // of the group, as listed
	seen             simSeen             // at its first write
	// policy that the settings name; policyGone: it was not in the cache.
	policy     *topsv1.UpgradePolicy
	policyGone bool
	// plan that the settings name, nil if there is none.
	plan *topsv1.UpgradePlan
	live map[types.UID]simLiveSet
	// ran is that of the world when it began.
	ran map[simRan][]string
	// settled are the settled revisions as it read them, nil until it stores a ledger.
	settled []topsv1.RevisionTarget
}

// simLiveSet is a DaemonSet as read live, and the true target and revisions at that time.
type simLiveSet struct {
	ds        *appsv1.DaemonSet
	target    string
	revisions []*appsv1.ControllerRevision
}

// simSeen are nodes and pods as last read from a cache.
type simSeen struct {
	nodes map[string]*corev1.Node
	pods  map[simSpot]*corev1.Pod
	// upgrades by node, in a seed with operations.
	upgrades map[string]*topsv1.NodeUpgrade
}

// simSpot is the place of a pod: a DaemonSet and a node.
type simSpot struct {
	set  types.UID
	node string
}

func newSimSeen() simSeen {
	return simSeen{map[string]*corev1.Node{}, map[simSpot]*corev1.Pod{}, map[string]*topsv1.NodeUpgrade{}}
}

func (s simSeen) clone() simSeen {
	return simSeen{maps.Clone(s.nodes), maps.Clone(s.pods), maps.Clone(s.upgrades)}
}

// ready reports whether a node was seen Ready.
func (s simSeen) ready(node string) bool {
	n := s.nodes[node]
	return n != nil && simNodeReady(n)
}

// saw records what a manager read from its cache.
func (m *simManager) saw(read any) {
	switch o := read.(type) {
	case *corev1.NodeList:
		clear(m.seen.nodes)
		for i := range o.Items {
			m.seen.nodes[o.Items[i].Name] = &o.Items[i]
		}
	case *corev1.Node:
		m.seen.nodes[o.Name] = o
	case *topsv1.NodeUpgradeList:
		clear(m.seen.upgrades)
		for i := range o.Items {
			m.seen.upgrades[o.Items[i].Name] = &o.Items[i]
		}
	case *topsv1.NodeUpgrade:
		m.seen.upgrades[o.Name] = o
	case *topsv1.UpgradePolicy:
		if p := m.pass; p != nil {
			p.policy = o
		}
	case *topsv1.UpgradePlan:
		if p := m.pass; p != nil {
			p.plan = o
		}
	case *appsv1.DaemonSetList:
		for i := range o.Items {
			m.saw(&o.Items[i])
		}
	case *appsv1.DaemonSet:
		if p := m.pass; p != nil && observed.GroupOf(o) == p.group {
			p.sets = append(p.sets, o.DeepCopy())
		}
	}
}

// sawPods records the pods read by a value of the index controllerUID.
func (m *simManager) sawPods(list *corev1.PodList, index string) {
	set, node, one := strings.Cut(index, "/")
	if one {
		delete(m.seen.pods, simSpot{types.UID(set), node})
	} else {
		maps.DeleteFunc(m.seen.pods, func(s simSpot, _ *corev1.Pod) bool { return s.set == types.UID(set) })
	}
	for i := range list.Items {
		spot := simSpot{types.UID(set), daemonset.NodeName(&list.Items[i])}
		m.seen.pods[spot] = simCounting(m.seen.pods[spot], &list.Items[i])
		m.sawPod(&list.Items[i], spot)
	}
}

// sawPod records the revision of a pod, and whether it works: a pod of a former Node that is still there shows nothing about the new one.
func (m *simManager) sawPod(pod *corev1.Pod, spot simSpot) {
	hash, isReady := daemonset.RevisionHash(pod), simPodReady(pod)
	if isReady {
		m.sawReady[spot] = hash
	}
	node := simapi.Get[*corev1.Node](m.w.api, simNodeKey(spot.node))
	if node == nil || pod.CreationTimestamp.Before(&node.CreationTimestamp) {
		return
	}
	if on := (simRan{spot.set, node.UID}); isReady {
		m.sawWork[on] = true
	} else if pod.Spec.NodeName != "" && !m.sawWork[on] {
		m.sawBound[on] = hash
	}
}

// clock is the clock of the Reconciler. A pass decides at its last reading before it writes.
func (m *simManager) clock() time.Time {
	if p := m.pass; p != nil && p.seen.nodes == nil {
		p.at, p.clock = m.w.now, m.now()
	}
	return m.now()
}

// now is the time by the clock of the manager.
func (m *simManager) now() time.Time { return m.w.now.Add(m.skew) }

// ahead is what its process knows of its clock: that of the API server is right.
func (m *simManager) ahead(time.Time) time.Duration { return m.skew }

// simRecorder drops events; their content is tested elsewhere.
type simRecorder struct{}

// Eventf drops an event.
func (simRecorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// restart starts a new process: everything in memory is gone, and the cache is filled from a list
// that may itself be old.
func (m *simManager) restart() {
	m.operator.end()
	m.r = &Reconciler{
		Client: &simClient{m: m}, Live: &simLive{m: m}, Recorder: simRecorder{}, Namespace: "gcu-system",
		Metrics: metrics.New(prometheus.NewRegistry()), Deadlines: rollout.DefaultDeadlines, Book: upgradeplan.DefaultBook(),
		Gate: m.w.gateMode, Clock: m.clock, groupStates: newGroupStates(m.ahead),
	}
	m.seen, m.sawReady, m.sawBound, m.sawWork = newSimSeen(), map[simSpot]string{}, map[simRan]string{}, map[simRan]bool{}
	m.ready, m.timers, m.limiter = map[observed.Group]bool{}, map[observed.Group]time.Time{}, watch.RateLimiter()
	m.cache, m.events, m.pass, m.rogueUntil = simapi.NewCache(m.w.api, simIndexers, transform.Trim()), nil, nil, time.Time{}
	m.operator, m.frozen = m.newOperator(), time.Time{}
	for _, kind := range simKinds {
		n := m.cache.Behind(kind)
		if !m.w.calm && m.w.knobs.stale > 0 && (n > 0 || kind != simPlans) {
			n = max(n-m.w.rng.IntN(1+min(n, m.w.knobs.stale)), m.w.seesLoss[kind]) // an API server that runs since a restore knows nothing older
		}
		m.note(kind, m.cache.Advance(kind, n))
	}
}

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
	simPlans     = "UpgradePlan"
)

// simIndexers are the indexes of the cache.
var simIndexers = map[string]client.IndexerFunc{controllerUID: indexByController, simNodeOfPod: func(object client.Object) []string {
	if pod, ok := object.(*corev1.Pod); ok {
		return []string{daemonset.NodeName(pod)}
	}
	return nil
}}

// simLiveIndexers are what the API server can select by. It does not know where a pod belongs that
// is not scheduled.
var simLiveIndexers = map[string]client.IndexerFunc{controllerUID: indexByController, simNodeOfPod: func(object client.Object) []string {
	if pod, ok := object.(*corev1.Pod); ok {
		return []string{pod.Spec.NodeName}
	}
	return nil
}}

const simNodeOfPod = "spec.nodeName"

// simKinds lists all watched kinds, in a fixed order.
var simKinds = []string{simSets, simRevisions, simPods, simNodes, simUpgrades, simRollouts, simPolicies, simGrs, simPlans, simJobs}

// sync lets the cache catch up to some degree, and passes the events to the queue.
func (m *simManager) sync() {
	for _, kind := range simKinds {
		n := m.cache.Behind(kind)
		if n > 0 && !m.w.calm && m.w.knobs.stale > 0 {
			n = max(n-m.w.knobs.stale, m.rng.IntN(n+1))
		}
		m.note(kind, m.cache.Advance(kind, n))
	}
	m.enqueue()
}

// cacheMoves lets the cache advance between two reads of one pass.
func (m *simManager) cacheMoves(kind string) {
	if m.pass == nil && m.operator.job == nil || m.w.calm || m.w.knobs.stale == 0 || m.rng.IntN(4) > 0 {
		return
	}
	if n := m.cache.Behind(kind); n > 0 {
		m.note(kind, m.cache.Advance(kind, 1+m.rng.IntN(n)))
	}
}

// note keeps events for later: the mappings of package watch read the cache.
func (m *simManager) note(kind string, changes []simapi.Event) {
	for _, e := range changes {
		m.events = append(m.events, func() {
			m.handle(kind, e)
			m.operator.wakes(e)
		})
	}
}

func (m *simManager) enqueue() {
	events := m.events
	m.events = nil
	for _, handle := range events {
		handle()
	}
}

// handle mirrors the wiring of SetupWithManager: which groups an event enqueues.
func (m *simManager) handle(kind string, e simapi.Event) {
	watches := m.r.watches()
	maps := map[string]func(context.Context, client.Object) []observed.Group{
		simPods: watches.OfPod, simRevisions: watches.OfController, simNodes: watches.OnNode,
		simUpgrades: watches.OfNodeUpgrade, simRollouts: watches.OfRollout, simPolicies: watches.UnderPolicy, simPlans: watches.UnderPlan, simJobs: watches.OfJob, simGrs: watch.OfGcuResource,
	}
	passes := map[string]predicate.Predicate{simNodes: watch.NodeChanged(), simSets: watch.DaemonSetChanged(), simUpgrades: watch.UpgradeChanged(), simGrs: watch.DeletionBegan(), simPlans: predicate.GenerationChangedPredicate{}}[kind]
	if passes != nil && e.Before != nil && e.After != nil && !passes.Update(event.UpdateEvent{ObjectOld: e.Before, ObjectNew: e.After}) {
		return
	}
	if kind == simSets {
		for _, g := range watches.OfDaemonSet(e.Before, e.After) {
			m.ready[g] = true
		}
		return
	}
	for _, object := range []client.Object{e.Before, e.After} {
		if object == nil {
			continue
		}
		for _, g := range maps[kind](context.Background(), object) {
			m.ready[g] = true
		}
	}
}

// due returns the group to reconcile now, false if there is none.
func (m *simManager) due() (observed.Group, bool) {
	for g, at := range m.timers {
		if !m.w.now.Before(at) {
			delete(m.timers, g)
			m.ready[g] = true
		}
	}
	var list []observed.Group
	for g := range m.ready {
		list = append(list, g)
	}
	if len(list) == 0 {
		return observed.Group{}, false
	}
	slices.SortFunc(list, func(a, b observed.Group) int { return cmp.Compare(a.String(), b.String()) })
	g := list[m.w.rng.IntN(len(list))]
	delete(m.ready, g)
	return g, true
}

// begin starts a Reconcile and returns when it waits for its first request.
func (m *simManager) begin(g observed.Group) {
	p := &simPass{w: m.w, m: m, group: g, begun: m.now(), blind: m.isBlind(), ran: maps.Clone(m.w.ran), live: map[types.UID]simLiveSet{}}
	m.pass = p
	m.w.passes++
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				p.err = fmt.Errorf("Reconcile panics: %v\n%s", cause, debug.Stack())
				m.w.panicked = p.err
			}
			p.done = true
		}()
		p.result, p.err = m.r.Reconcile(context.Background(), g)
	}()
	synctest.Wait()
}

// serveOne serves one of the parked requests.
func (m *simManager) serveOne() {
	slices.SortFunc(m.parked, func(a, b *simCall) int {
		return cmp.Or(cmp.Compare(a.verb, b.verb), cmp.Compare(a.key.Kind, b.key.Kind), simapi.CompareKeys(a.key, b.key))
	})
	m.serveAt(m.w.rng.IntN(len(m.parked)))
}

func (m *simManager) serveAt(i int) {
	c := m.parked[i]
	m.parked = slices.Delete(m.parked, i, i+1)
	m.w.serve(m, c)
	synctest.Wait()
}

// drive continues the current pass until it ends or is interrupted.
func (m *simManager) drive() {
	for !m.pass.done {
		m.serveOne()
		if p := m.pass; !p.done && !p.dead && !m.w.calm {
			switch {
			case m.w.chance(m.w.knobs.crash):
				m.w.say("%s is killed", m.name)
				p.dead = true
			case m.w.chance(m.w.knobs.pause):
				p.until = m.w.now.Add(m.w.seconds(0, 60))
				m.w.say("%s sleeps until %s", m.name, p.until.Sub(fixture.Epoch))
				return
			}
		}
	}
	m.finish()
}

// finish does what the work queue does with the result of a pass.
func (m *simManager) finish() {
	p := m.pass
	m.pass = nil
	p.noteHealthy()
	if p.dead {
		if p.cutsPlan() {
			m.w.plansCut++
		}
		m.restart()
		return
	}
	if p.err != nil {
		m.w.say("%s: %s: error %v", m.name, p.group, p.err)
		m.addTimer(p.group, m.limiter.When(p.group))
		return
	}
	m.limiter.Forget(p.group)
	if p.result.RequeueAfter > 0 {
		m.addTimer(p.group, p.result.RequeueAfter)
	}
}

func (m *simManager) addTimer(g observed.Group, after time.Duration) {
	at := m.w.now.Add(after)
	if old, ok := m.timers[g]; !ok || at.Before(old) {
		m.timers[g] = at
	}
}

// work is one turn of a manager: it handles events, then makes passes.
func (m *simManager) work() {
	if m.sleeps(m.frozen) {
		return
	}
	if m.pass != nil {
		if m.sleeps(m.pass.until) {
			return
		}
		m.drive()
	}
	for range 3 {
		if m.pass != nil {
			return
		}
		m.sync()
		g, ok := m.due()
		if !ok {
			return
		}
		m.begin(g)
		m.drive()
	}
}
