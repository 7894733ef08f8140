package operation

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

const theNode = "n1"

// world is the true state of one node, with its part of the API server, its kubelet, its
// agent and the agent's disk.
type world struct {
	t   *testing.T // nil in the simulation
	rng *rand.Rand
	now time.Time
	// ahead is how far the clock of the managers is, since it jumped, by that clock.
	ahead  time.Duration
	jumped time.Time
	log    []string
	// violation is the invariant that was violated.
	violation string

	steps    int
	version  int // of the API server
	nu       topsv1.NodeUpgrade
	nuAt     int
	node     cordon.NodeFacts
	taint    string
	ready    bool
	since    time.Time
	foreign  bool // a person wants the node cordoned
	members  []*truth
	host     hostTruth
	workload int
	asked    string // the operation requested last
	grantIn  int    // turns until the operation gets its slot; 0: it has one, or never gets it
	excused  bool   // a person uncordoned the node during an operation: no reaction is quick enough
	blocked  bool   // a budget refuses every eviction
	next     int
}

// truth is a DaemonSet and its pod.
type truth struct {
	component, newest string
	bad               string // the revision that never becomes available
	barred            string // why the node accepts no new pod
	pod               *podTruth
}

type podTruth struct {
	Pod
	readyAt, goneAt time.Time
}

// hostTruth is the host and the agent's disk.
type hostTruth struct {
	driver   string
	devices  int32
	runtime  string
	stops    bool
	silent   bool
	begun    map[string]string // operation -> runtime instance before its restart
	results  []topsv1.HostTaskResult
	instance int
	restarts map[string]int
	// restarted is when the engine was last restarted: pods that started before have no cards.
	restarted time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), ready: true, version: 100}
	w.since = w.now.Add(-time.Hour)
	w.node = cordon.NodeFacts{Name: theNode, ResourceVersion: w.bump()}
	for i, c := range []string{upgradeplan.TargetNFD, upgradeplan.TargetDriver, upgradeplan.TargetToolkit, upgradeplan.TargetDevicePlugin, upgradeplan.TargetExporter} {
		m := &truth{component: c, newest: "v1"}
		w.members = append(w.members, m)
		w.create(m)
		m.pod.Created, m.pod.Available, m.pod.Since = w.now.Add(time.Duration(i-60)*time.Minute), true, w.now.Add(-50*time.Minute)
	}
	w.host = hostTruth{driver: "v1", devices: 8, runtime: "runc", stops: w.rng.IntN(2) == 0, begun: map[string]string{}, restarts: map[string]int{}}
	w.workload = w.rng.IntN(3)
	w.report()
	return w
}

func (w *world) bump() string { w.version++; return strconv.Itoa(w.version) }

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%s ", w.now.Format("15:04:05"))+fmt.Sprintf(format, args...))
}

// violate ends the test, or in the simulation the goroutine that plays the seed.
func (w *world) violate(format string, args ...any) {
	w.violation = fmt.Sprintf(format, args...)
	if w.t == nil {
		runtime.Goexit()
	}
	w.t.Fatalf("%s\n%s", strings.Join(w.log, "\n"), w.violation)
}

func (w *world) member(component string) *truth {
	i := slices.IndexFunc(w.members, func(m *truth) bool { return m.component == component })
	return w.members[i]
}

func (w *world) create(m *truth) {
	w.next++
	uid := types.UID(fmt.Sprintf("%s-%d", m.component, w.next))
	m.pod = &podTruth{readyAt: w.now.Add(time.Duration(5+w.rng.IntN(20)) * time.Second), Pod: Pod{Revision: m.newest, Created: w.now, Started: w.now, Since: w.now,
		NamedPod: topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: "ns", Name: string(uid), UID: uid}, ResourceVersion: w.bump()}}}
}

// offer requests an operation that brings the node to the newest revisions.
func (w *world) offer(id string, components ...string) {
	plan := upgradeplan.Node{Name: theNode, Changed: components}
	op := &topsv1.NodeOperation{ID: id, NodeUID: "node", Purpose: topsv1.PurposeUpgrade, Revision: "r", DefaultRuntime: "enflame", Granted: true}
	if w.rng.IntN(4) == 0 {
		op.Purpose = topsv1.PurposeRollback
	}
	for _, m := range w.members {
		plan.Deployed = append(plan.Deployed, m.component)
		op.Targets = append(op.Targets, topsv1.OperationTarget{Component: m.component, DaemonSet: topsv1.NamespacedRef{UID: types.UID(m.component)}, Revision: m.newest, Previous: "v1"})
	}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), []upgradeplan.Node{plan}, 0)
	if err != nil {
		w.violate("%v", err)
	}
	for _, stage := range mission[0][0] {
		var names topsv1.JobStage
		for _, task := range stage {
			names = append(names, topsv1.TaskName(task.String()))
		}
		op.Job = append(op.Job, names)
	}
	w.nu.Spec.Operation, w.asked = op, id
	w.touch()
	w.note("operation %s of %v", id, components)
}

func (w *world) touch() { w.nuAt++ }

// facts returns what a controller observes now.
func (w *world) facts() Facts {
	nu := w.nu.DeepCopy()
	f := Facts{Now: w.now, Wanted: nu.Spec.Operation, Override: nu.Annotations[topsv1.AnnotationTaskOverride],
		Record: Record{Operation: nu.Status.Operation, History: nu.Status.History}, Host: nu.Status.Host, HostSince: HostSince(nu, nil, w.now),
		Node: Node{Name: theNode, UID: "node", Cordon: w.node, Taint: w.taint, Ready: w.ready, Since: w.since, Allocatable: map[string]int64{"enflame.com/gcu": w.allocatable()}}}
	if NeedsDrained(f) {
		f.Drained = w.drained(f.Operation)
	}
	if NeedsCardUsers(f) && w.workload > 0 {
		f.CardUsers = []string{"ns/workload"}
	}
	for _, m := range w.members {
		seen := Member{Component: m.component, DaemonSet: "ns/" + m.component, UID: types.UID(m.component), Newest: m.newest, NoSuccessor: m.barred}
		if m.pod != nil {
			pod := m.pod.Pod
			seen.Pod = &pod
		}
		f.Members = append(f.Members, seen)
	}
	return w.byClock(f)
}

// byClock returns facts with the times that managers take from their own clock, which may be hours from that of all others.
func (w *world) byClock(f Facts) Facts {
	f.Now, f.WorkedSince, f.HostSince, f.Node.Since = f.Now.Add(w.ahead), w.jumped, f.HostSince.Add(w.ahead), f.Node.Since.Add(w.ahead)
	for i := range f.Members {
		if pod := f.Members[i].Pod; pod != nil {
			pod.Since = pod.Since.Add(w.ahead)
		}
	}
	return f
}

// jump lets the clock of the managers jump by hours, which is a break for them.
func (w *world) jump() {
	w.ahead = time.Duration(w.rng.Int64N(int64(8*time.Hour))) - 4*time.Hour
	w.jumped = w.now.Add(w.ahead)
	w.note("the clock is %s ahead", w.ahead)
}

func (w *world) drained(op *topsv1.OperationStatus) Drained {
	if !w.ready || w.workload > 0 {
		if !Prechecked(op) && w.ready && w.blocked {
			return Drained{Stuck: true, Message: "a budget refuses"}
		}
		return Drained{Message: "pods are left"}
	}
	return Drained{Empty: true}
}

func (w *world) allocatable() int64 {
	if p := w.member(upgradeplan.TargetDevicePlugin).pod; p == nil || !p.Available || !p.Started.After(w.host.restarted) {
		return 0
	}
	return int64(w.host.devices)
}

// store stores a record as the API server does.
func (w *world) store(r Record, seenAt int) bool {
	if seenAt != w.nuAt {
		return false
	}
	w.nu.Status.Operation, w.nu.Status.History = r.Operation.DeepCopy(), slices.Clone(r.History)
	w.touch()
	if op := r.Operation; op != nil {
		w.note("stored %s %s task %s: %s %s", op.ID, op.Phase, op.Task, op.Reason, op.Message)
	}
	return true
}

// apply carries out an effect as the API server does: a failed precondition rejects it.
func (w *world) apply(e Effect) {
	if op := w.nu.Status.Operation; op != nil && op.ID == e.Operation && !op.Granted {
		w.violate("%s for %s, which has no slot", e.Kind, e.Operation)
	}
	switch e.Kind {
	case Cordon, Uncordon, UntaintDevice, TaintDevice:
		w.applyToNode(e)
	case Evict:
		if only := w.nu.Spec.Operation; only != nil && only.ID == e.Operation && only.OnlyIdle && w.workload > 0 && !w.excused {
			w.violate("pods are evicted for %s, which nobody asked for", e.Operation)
		}
		if !w.blocked && w.ready && w.workload > 0 {
			w.workload--
			w.note("evicted a pod")
		}
	case DeletePod, FencePod:
		for _, m := range w.members {
			if m.pod == nil || m.pod.NamedPod != e.Pod || e.Pod.ResourceVersion == "" {
				continue
			}
			m.pod.ResourceVersion = w.bump()
			if e.Kind == DeletePod {
				w.deleted(m, e)
			}
		}
	}
}

func (w *world) applyToNode(e Effect) {
	if e.NodeVersion == "" {
		w.violate("S5: %s without a resourceVersion", e.Kind)
	}
	if e.NodeVersion != w.node.ResourceVersion || e.NodeUID != "node" {
		return
	}
	switch e.Kind {
	case UntaintDevice:
		if w.taint != e.Operation {
			return
		}
		w.taint = ""
	case TaintDevice:
		w.taint = e.Operation
	default:
		if e.Change.Unschedulable != nil {
			w.node.Unschedulable, w.node.SetByOther = *e.Change.Unschedulable, false
		}
		if e.Change.Mark != nil {
			w.node.Mark = *e.Change.Mark
		}
	}
	w.node.ResourceVersion = w.bump()
	w.note("%s for %s", e.Kind, e.Operation)
	if w.foreign && !w.node.Unschedulable {
		w.violate("S4: the cordon of a person was removed")
	}
}

func (w *world) deleted(m *truth, e Effect) {
	if m.pod.Terminating {
		return
	}
	w.note("deleted pod of %s for %s", m.component, e.Operation)
	m.pod.Terminating, m.pod.goneAt = true, w.now.Add(time.Duration(1+w.rng.IntN(10))*time.Second)
	if m.component != upgradeplan.TargetDriver {
		return
	}
	if !w.excused && (!w.node.Unschedulable || w.workload > 0) {
		w.violate("S8: the driver is replaced with %d pods on a node that is unschedulable: %v", w.workload, w.node.Unschedulable)
	}
	for _, user := range []string{upgradeplan.TargetDevicePlugin, upgradeplan.TargetExporter} {
		if p := w.member(user).pod; p != nil {
			w.violate("S8: the driver is replaced while %s uses the device", user)
		}
	}
}

// kubelet plays the kubelet, the DaemonSet controller and the scheduler.
func (w *world) kubelet() {
	for _, m := range w.members {
		switch p := m.pod; {
		case p == nil:
			user := m.component == upgradeplan.TargetDevicePlugin || m.component == upgradeplan.TargetExporter
			if m.barred == "" && (!user || w.taint == "") {
				w.create(m)
			}
		case !w.ready:
		case p.Terminating && !w.now.Before(p.goneAt):
			m.pod = nil
		case !p.Available && !p.Terminating && m.bad == p.Revision:
			p.CrashLooping = w.now.After(p.Created.Add(2 * time.Minute))
		case !p.Available && !p.Terminating && !w.now.Before(p.readyAt):
			p.Available, p.Since, p.ResourceVersion = true, w.now, w.bump()
			if m.component == upgradeplan.TargetDriver {
				w.host.driver = p.Revision
			}
		}
	}
	if w.ready && !w.node.Unschedulable && w.allocatable() > 0 && w.workload < 2 && w.rng.IntN(3) == 0 {
		w.workload++
	}
}

// agent does one of the tasks it is asked to do; it may die at any line.
func (w *world) agent(dies func() bool) {
	if !w.ready || w.host.silent {
		return
	}
	for _, asked := range w.nu.RequestedTasks() {
		t, err := upgradeplan.ParseTask(asked.Name)
		if err != nil {
			w.violate("%v", err)
		}
		op := w.nu.Status.Operation.ID
		if t.Action == upgradeplan.ActionRestartRuntime && !w.restartRuntime(op, dies) {
			return
		}
		switch t.Action {
		case upgradeplan.ActionPrepull, upgradeplan.ActionVerify, upgradeplan.ActionRestartRuntime:
			end, reason := metav1.NewTime(w.now), "Done"
			if t.Action == upgradeplan.ActionRestartRuntime && w.host.restarts[op] > 0 {
				reason = topsv1.ReasonRestarted
			}
			w.result(topsv1.HostTaskResult{Operation: op, Task: asked.Name, Attempt: asked.Attempts, State: topsv1.HostTaskDone, Reason: reason, EndTime: &end})
		}
		if dies() {
			return
		}
	}
	w.report()
}

// restartRuntime does what pkg/hostagent does: it records first, then restarts; after a death
// the runtime instance shows whether the restart happened.
func (w *world) restartRuntime(op string, dies func() bool) bool {
	if w.host.runtime == "enflame" {
		return true
	}
	before, begun := w.host.begun[op]
	if !begun {
		before = strconv.Itoa(w.host.instance)
		w.host.begun[op] = before
		if dies() {
			return false
		}
	}
	if before == strconv.Itoa(w.host.instance) {
		if w.workload > 0 && !w.excused {
			w.violate("S8: the runtime is restarted with %d pods on the node", w.workload)
		}
		w.host.instance++
		w.host.restarts[op]++
		w.host.runtime, w.host.restarted = "enflame", w.now
		w.note("restarted the runtime for %s", op)
		if w.host.restarts[op] > 1 {
			w.violate("S11: the runtime was restarted twice for %s", op)
		}
	}
	return !dies()
}

func (w *world) result(r topsv1.HostTaskResult) {
	w.host.results = slices.DeleteFunc(w.host.results, func(o topsv1.HostTaskResult) bool { return o.Operation == r.Operation && o.Task == r.Task })
	w.host.results = append(w.host.results, r)
}

func (w *world) report() {
	devices, disk, stops := w.host.devices, int64(1<<40), w.host.stops
	w.nu.Status.Host = &topsv1.HostReport{DeviceHoldersVisible: ptr.To(true), Time: metav1.NewTime(w.now), BootID: "boot", DriverVersion: w.host.driver, Devices: &devices, FreeDiskBytes: &disk,
		Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: w.host.runtime, RestartStopsContainers: &stops}, Results: slices.Clone(w.host.results)}
	w.touch()
}
