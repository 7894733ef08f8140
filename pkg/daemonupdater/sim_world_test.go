package daemonupdater

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simNamespace is the namespace of the model's DaemonSets.
const simNamespace = "kube-system"

// simApp is the label by which a DaemonSet selects its pods.
const simApp = "app"

// simLease is how long a leader may be silent before the other manager takes over.
const simLease = 15 * time.Second

// simMinReady is minReadySeconds of some DaemonSets.
const simMinReady = 5 * time.Second

// simKnobs select the disturbances of a seed; a chance is one in n, 0 is never.
type simKnobs struct {
	faults int // of a request
	crash  int // of a manager, after a request
	pause  int // of a manager, between two requests
	late   bool
	stale  int // how many changes a cache may be behind, per kind
	admin  int // of an edit per step
	bad    int // of a new version being bad
	nodes  int // of a node event per step
	ota    bool
}

// simWorld is the model of a cluster. One goroutine runs it; the reconciles run in goroutines of
// their own, which all wait while the world moves.
type simWorld struct {
	seed  uint64
	rng   *rand.Rand
	now   time.Time
	knobs simKnobs
	api   *simapi.API

	skews    *rand.Rand // draws how wrong clocks are; nil in a seed in which all are right
	policies *rand.Rand // draws everything about policies; nil in a seed without them
	simAccidents
	simGate
	controller simController
	simCRDs
	plans *rand.Rand // draws everything about plans; nil in a seed without any
	// forgetting draws when operations are forgotten; nil in a seed in which none is (sim_forgotten_test.go). forgotten counts them.
	forgetting *rand.Rand
	forgotten  int
	groups     []*simGroup
	hosts      []*simHost
	seen       map[simapi.Key]*appsv1.DaemonSet // what the DaemonSet controller has seen
	versions   int
	requests   map[simAsked]bool // what nodes ever requested

	managers []*simManager
	leader   *simManager
	planned  []simPlanned

	// outage: the API server cannot be reached. refused, when set, says which calls an
	// admission webhook denies.
	outage  bool
	refused func(*simCall) bool

	calm       bool // no more faults
	orderly    bool // no faults at all, and no node that is stuck
	patient    bool // waits for something that takes hours
	steps      int
	passes     int
	writes     int
	crashAfter int // kill the manager after this many writes; 0 never
	changes    int // of the API server, before the last step
	history    []string
	violations []string
	panicked   error
	stuck      string // the one node that never reaches the target
	accounts   map[observed.Group]*simAccount
	undone     int // rollbacks by a manager
	// tasksDone are the Jobs of tasks of plans that have ever completed; with tasksHang, none ends.
	tasksDone map[string]bool
	tasksHang bool
	plansCut  int // deaths of managers in the middle of a plan
	// partsOfWaves counts the parts of plans that became complete under a policy with waves.
	partsOfWaves int
	// approvals of batches that persons gave.
	approvals map[simApproval]bool
	// ahead counts the pulls of light changes by how they ended.
	ahead map[string]int
	ops   *simOps // in a seed with operations
}

// simGroup is a rollout group: a single DaemonSet, or those of a gr.
type simGroup struct {
	id   observed.Group
	sets []simapi.Key
	// policy is the name of its UpgradePolicy in this seed, "" for none.
	policy string
	// ota is since when its strategy is OTA, zero if it is another.
	ota time.Time
	// spec is the spec of its gr, in a seed with operations.
	spec *simSpec
	// images pushed so far by set, for rollbacks.
	images [][]string
}

// simPlanned is something that happens later.
type simPlanned struct {
	at time.Time
	do func()
}

func newSimWorld(seed uint64) *simWorld {
	w := &simWorld{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), policies: newSimPolicies(seed), skews: newSimSkews(seed), simAccidents: newSimAccidents(seed), controller: newSimController(seed), simCRDs: newSimCRDs(seed), plans: newSimPlans(seed), forgetting: newSimForgetting(seed), tasksDone: map[string]bool{}, now: fixture.Epoch.Add(137 * time.Millisecond),
		seen: map[simapi.Key]*appsv1.DaemonSet{}, requests: map[simAsked]bool{}, accounts: map[observed.Group]*simAccount{}, ahead: map[string]int{}, approvals: map[simApproval]bool{},
	}
	w.api = simapi.New(w.clock)
	w.api.Changed = w.settleNode
	w.controller.restart(w.api)
	return w
}

// populate creates the cluster: nodes, drawn groups, an unmanaged DaemonSet, and two managers.
func (w *simWorld) populate(nodes int) { w.populateWith(nodes, w.addGroups) }

func (w *simWorld) populateWith(nodes int, addGroups func()) {
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		w.hosts = append(w.hosts, &simHost{name: name, up: true, labels: w.drawLabels(name), skew: w.drawSkew()})
		w.addMachine(w.hosts[i])
		w.addNode(w.hosts[i])
	}
	addGroups()
	w.addSet(w.newSet("bystander", "good-0"))
	for i := range 2 {
		m := &simManager{w: w, name: fmt.Sprint("manager", i), rng: rand.New(rand.NewPCG(w.seed, uint64(10+i)))}
		w.managers = append(w.managers, m)
	}
	w.managers[1].skew = w.drawSkew()
	for range 4 {
		w.kubernetes()
		w.now = w.now.Add(30 * time.Second)
	}
	w.leader = w.managers[0]
	w.leader.restart()
}

// addGroups draws the groups of a seed.
func (w *simWorld) addGroups() {
	shape := w.rng.IntN(5)
	if w.ops != nil {
		w.addHeavyGroups(shape)
		return
	}
	if shape != 0 {
		w.addGroup(simSingle, "single")
	}
	if shape < 2 {
		w.addGroup(simFleet, "driver", "plugin", "toolkit")
	}
}

// Groups of the model.
var (
	simSingle = observed.Group{Kind: observed.KindDaemonSet, Namespace: simNamespace, Name: "single"}
	simFleet  = observed.Group{Kind: observed.KindGcuResource, Name: "fleet"}
)

func (w *simWorld) addGroup(id observed.Group, names ...string) {
	g := &simGroup{id: id}
	limit := fmt.Sprint(1 + w.rng.IntN(3))
	for i, name := range names {
		ds := w.newSet(name, "good-0")
		ds.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
		ds.Annotations[topsv1.AnnotationMaxUnavailable] = limit
		if id.Kind == observed.KindGcuResource {
			ds.Annotations[topsv1.AnnotationOrder] = fmt.Sprint(len(names) - i)
			ds.Labels = map[string]string{topsv1.LabelGcuResource: id.Name}
			ds.OwnerReferences = fixture.ControlledBy(topsv1.GroupVersion.String(), observed.KindGcuResource, id.Name, simGrUID(id))
			w.makeHeavy(ds, i)
		}
		w.addSet(ds)
		g.sets = append(g.sets, simapi.KeyOf(ds))
		g.images = append(g.images, []string{"good-0"})
	}
	w.groups = append(w.groups, g)
	w.addGr(g)
	w.givePolicy(g)
}

func (w *simWorld) newSet(name, image string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: simNamespace, Name: name, Generation: 1, Annotations: map[string]string{},
	}}
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Spec.MinReadySeconds = int32(w.rng.IntN(2)) * int32(simMinReady/time.Second)
	labels := map[string]string{simApp: name}
	ds.Spec.Selector, ds.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return ds
}

func (w *simWorld) addSet(ds *appsv1.DaemonSet) { w.api.Put(ds) }

// groupOfSet returns the group a DaemonSet belongs to, nil for the bystander.
func (w *simWorld) groupOfSet(name string) *simGroup {
	for _, g := range w.groups {
		if slices.Contains(g.sets, simapi.Named(simSets, simNamespace, name)) {
			return g
		}
	}
	return nil
}

func (w *simWorld) clock() time.Time { return w.now }

// chance is true once in n times on average, never for 0.
func (w *simWorld) chance(n int) bool { return n > 0 && w.rng.IntN(n) == 0 }

func (w *simWorld) seconds(least, most int) time.Duration {
	return time.Duration(least+w.rng.IntN(most-least+1)) * time.Second
}

// hash returns a number that depends only on the seed and the parts.
func (w *simWorld) hash(parts ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, append([]any{w.seed}, parts...)...)
	return h.Sum64()
}

func (w *simWorld) later(after time.Duration, do func()) {
	w.planned = append(w.planned, simPlanned{w.now.Add(after), do})
}

func (w *simWorld) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%10s ", w.now.Sub(fixture.Epoch).Truncate(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *simWorld) violate(format string, args ...any) {
	w.say("VIOLATION "+format, args...)
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *simWorld) failed() bool {
	if w.panicked != nil && len(w.violations) == 0 {
		w.violate("%v", w.panicked)
	}
	return len(w.violations) > 0
}

// step advances the time a little, then lets every part of the world act.
func (w *simWorld) step() {
	w.steps++
	w.now = w.now.Add(w.nextStep())
	w.settleAccounts() // a pod may become available by time alone
	w.doPlanned()
	w.kubernetes()
	if !w.managersAway() {
		w.deploySpecs()
	}
	w.runMachines()
	w.runTasks()
	if w.calm {
		w.calmAdministrator()
	} else {
		w.disturb()
	}
	if !w.managersAway() {
		w.elect()
		for _, m := range w.managers {
			w.turn(m)
		}
	}
	w.checkAll()
}

// nextStep draws the time to the next step. Once the faults have stopped, it is longer after a
// step in which nothing changed.
func (w *simWorld) nextStep() time.Duration {
	quiet := w.managersAway() || w.calm && w.patient && w.api.Counter == w.changes
	w.changes = w.api.Counter
	switch {
	case quiet:
		return w.seconds(10, 60)
	case w.chance(3):
		return time.Duration(20+w.rng.IntN(1500)) * time.Millisecond
	}
	return w.seconds(1, 15)
}

// doPlanned executes what is due, or everything once the faults have stopped.
func (w *simWorld) doPlanned() {
	for i := 0; i < len(w.planned); i++ {
		if p := w.planned[i]; w.calm || !w.now.Before(p.at) {
			w.planned = slices.Delete(w.planned, i, i+1)
			i--
			p.do()
		}
	}
}

// elect gives the lease to the other manager when the leader has been silent for too long.
func (w *simWorld) elect() {
	if lease := w.now.Add(simLease); (w.leader.pass == nil || w.leader.pass.until.Before(lease)) && w.leader.frozen.Before(lease) {
		return
	}
	for _, m := range w.managers {
		if m != w.leader && m.pass == nil && m.operator.idle() {
			m.restart()
			w.leader = m
			w.say("%s leads", m.name)
			return
		}
	}
}

// turn lets one manager work. One that has lost the lease continues its current work for some
// seconds, until it notices.
func (w *simWorld) turn(m *simManager) {
	switch {
	case m == w.leader:
		m.rogueUntil = time.Time{}
		m.work()
		m.operate(true)
	case m.pass != nil || !m.operator.idle():
		if m.pass != nil {
			m.work()
		}
		m.operate(false)
		if m.pass == nil {
			m.rogueUntil = w.now.Add(w.seconds(0, 10))
		}
	case w.now.Before(m.rogueUntil) && !w.calm:
		m.work()
		m.operate(true)
	}
}

// end fails every reconcile in progress, so that no goroutine is left.
func (w *simWorld) end() {
	for _, m := range w.managers {
		if m.pass != nil {
			m.pass.dead = true
			w.calm = true
			m.drive()
		}
		m.operator.end()
	}
	for _, h := range w.hosts {
		if h.machine != nil {
			h.machine.agent.dies()
		}
	}
}
