package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simCards is the resource that the device plugin offers, simCardsThere the number of cards.
const (
	simCards      = "enflame.com/gcu"
	simCardsThere = 8
)

// simRestartTime is how long an agent tries to restart a runtime.
const simRestartTime = 420 * time.Second

// simMachine is what runs below the kubelet of a host: the driver, the runtime, the pods of
// users, and the node agent with its disk.
type simMachine struct {
	driver  string // loaded version, "" for none
	runtime string // default runtime of the daemon
	runs    int    // instance of the daemon
	stops   bool   // a restart stops the containers
	// installed is the pod whose start last changed the host, by component.
	installed map[string]types.UID
	restarts  map[string]int // of the runtime, by operation
	workload  []*simWorkload
	// foreign: a person wants the node cordoned. excused: someone uncordoned it during an
	// operation, which no manager can react to in time.
	foreign, excused bool
	// broken: no driver finds the cards.
	broken bool
	// blind: the plugin was started before the runtime was right. byHand: the agent leaves restarts
	// to an administrator; says is what it reports of that.
	blind, byHand bool
	says          *bool

	agentDownUntil, cutUntil, reported time.Time
	// the disk of the agent: the restarts it has begun, and results.
	begun   map[string]*simBegun
	results []topsv1.HostTaskResult
}

// simBegun is the record of a restart; before is the instance before it.
type simBegun struct {
	before      int
	deadline    time.Time
	torn, ended bool
}

// simWorkload is a pod of a user on a node.
type simWorkload struct {
	gcu     bool
	guarded time.Time // until then a PodDisruptionBudget blocks its eviction
	leaves  time.Time // when it is gone; zero: it stays
}

func (w *simWorld) addMachine(h *simHost) {
	if w.ops == nil {
		return
	}
	h.machine = &simMachine{driver: "good-0", runtime: simPick(w.rng, "runc", "runc", "enflame"), stops: w.chance(3),
		installed: map[string]types.UID{}, restarts: map[string]int{}, begun: map[string]*simBegun{}}
	w.drawAgent(h.machine)
}

// runMachines runs what is below the kubelets, and the reactions of Kubernetes to it.
func (w *simWorld) runMachines() {
	if w.ops == nil {
		return
	}
	w.collectUpgrades()
	w.administer()
	for _, h := range w.hosts {
		w.offerCards(h)
		w.scheduleWorkload(h)
		w.agent(h)
	}
}

// collectUpgrades acts as the garbage collector.
func (w *simWorld) collectUpgrades() {
	for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		if w.ownerGone(u) && (w.calm || w.chance(4)) {
			w.api.Remove(simapi.KeyOf(u))
		}
	}
}

// ownerGone reports whether the Node object that a NodeUpgrade belongs to is gone.
func (w *simWorld) ownerGone(u *topsv1.NodeUpgrade) bool {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(u.Name))
	return node == nil || node.UID != u.OwnerReferences[0].UID
}

// offerCards sets the resources that a node offers by the state of its plugin and driver.
func (w *simWorld) offerCards(h *simHost) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	plugin := w.podOn(simapi.Named(simSets, simNamespace, upgradeplan.TargetDevicePlugin), h.name)
	if node == nil || !h.up {
		return
	}
	want := int64(0)
	if plugin != nil && plugin.DeletionTimestamp == nil && simPodReady(plugin) && h.machine.driver != "" && !h.machine.blind {
		want = simCardsThere
	}
	if offered := node.Status.Allocatable[simCards]; offered.Value() != want {
		simapi.Edit(w.api, simNodeKey(h.name), func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{simCards: *resource.NewQuantity(want, resource.DecimalSI)}
		})
	}
}

// scheduleWorkload acts as the scheduler, and ends pods.
func (w *simWorld) scheduleWorkload(h *simHost) {
	node, m := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name)), h.machine
	if node == nil {
		m.workload = nil
		return
	}
	if !h.up {
		return
	}
	m.workload = slices.DeleteFunc(m.workload, func(p *simWorkload) bool { return !p.leaves.IsZero() && !w.now.Before(p.leaves) })
	if !simNodeReady(node) || node.Spec.Unschedulable || len(m.workload) >= 3 || !w.chance(4) {
		return
	}
	cards := node.Status.Allocatable[simCards]
	p := &simWorkload{gcu: w.chance(2)}
	if p.gcu && (cards.IsZero() || simTainted(node, topsv1.TaintDriverUpgrade)) {
		return
	}
	if w.chance(3) {
		p.leaves = w.now.Add(w.seconds(30, 900))
	}
	m.workload = append(m.workload, p)
}

// guards reports whether a PodDisruptionBudget blocks the eviction of a pod now.
func (w *simWorld) guards(h *simHost, p *simWorkload) bool {
	return h.name == w.ops.guarded || w.now.Before(p.guarded) && !w.calm
}

// left counts the pods on a machine that a drain has to remove.
func (m *simMachine) left(all bool) int {
	n := 0
	for _, p := range m.workload {
		if all || p.gcu {
			n++
		}
	}
	return n
}

// drained is what a drain finds. In the precheck it asks whether evictions would be accepted.
func (w *simWorld) drained(h *simHost, op *topsv1.OperationStatus, ready bool) (d operation.Drained) {
	all := op != nil && op.DrainAll
	if d.Empty = ready && h.machine.left(all) == 0; d.Empty {
		return d
	}
	d.Message = "pods are left"
	d.Stuck = ready && op != nil && op.Before == nil && slices.ContainsFunc(h.machine.workload, func(p *simWorkload) bool { return (all || p.gcu) && w.guards(h, p) })
	return d
}

// evict is one pass of a drain; it returns how many pods are left.
func (w *simWorld) evict(h *simHost, all bool) {
	for _, p := range h.machine.workload {
		if gone := w.now.Add(w.seconds(1, 30)); (all || p.gcu) && !w.guards(h, p) && (p.leaves.IsZero() || gone.Before(p.leaves)) {
			p.leaves = gone
		}
	}
}

// installs applies to the host what the start of a component does, once per pod.
func (w *simWorld) installs(h *simHost, pod *corev1.Pod) {
	if h.machine == nil {
		return
	}
	component, image := daemonset.Owner(pod).Name, pod.Spec.Containers[0].Image
	if h.machine.installed[component] == pod.UID {
		return
	}
	h.machine.installed[component] = pod.UID
	if component == upgradeplan.TargetDevicePlugin {
		w.startPlugin(h)
	}
	if component != upgradeplan.TargetDriver {
		return
	}
	if h.machine.driver = image; h.machine.broken || strings.HasPrefix(image, "noload") {
		h.machine.driver = ""
	}
}

// agent runs the node agent of a host. It may die after each action.
func (w *simWorld) agent(h *simHost) {
	m := h.machine
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	if !h.up || !w.calm && w.now.Before(m.agentDownUntil) || !w.calm && w.chance(3) {
		return
	}
	if !w.finishRestarts(h) || node == nil || !w.calm && w.now.Before(m.cutUntil) {
		return
	}
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
	if u == nil {
		w.api.Put(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: h.name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: h.name, UID: node.UID}}}})
		return
	}
	said := len(m.results)
	for _, asked := range u.AskedOfHost() {
		if u.Spec.Operation.NodeUID != node.UID || !w.doOnHost(h, u.Spec.Operation.ID, asked) {
			return
		}
	}
	if w.now.Sub(m.reported) >= 40*time.Second || len(m.results) != said || !w.calm && w.chance(5) {
		w.reportHost(h, u)
	}
}

// doOnHost executes one task, unless it has a result; false if the agent died.
func (w *simWorld) doOnHost(h *simHost, op string, asked topsv1.OperationTask) bool {
	t, err := upgradeplan.ParseTask(asked.Name)
	if err != nil {
		w.violate("%v", err)
		return false
	}
	m := h.machine
	answered := slices.ContainsFunc(m.results, func(r topsv1.HostTaskResult) bool {
		return r.Operation == op && r.Task == asked.Name && r.Attempt >= asked.Attempts && r.State.Final()
	})
	if answered {
		return true
	}
	result := topsv1.HostTaskResult{Operation: op, Task: asked.Name, Attempt: asked.Attempts, State: topsv1.HostTaskDone}
	switch t.Action {
	case upgradeplan.ActionPrepull:
		if !w.calm && w.chance(3) {
			result.State, result.Message = topsv1.HostTaskFailed, "the registry is away"
		}
	case upgradeplan.ActionRestartRuntime:
		begun := m.begun[op]
		switch {
		case m.byHand && begun == nil:
			m.leave(&result)
		case begun == nil && m.runtime == "enflame":
		case begun == nil:
			m.begun[op] = &simBegun{before: m.runs, deadline: w.now.Add(simRestartTime)}
			return !w.agentDies(h)
		case begun.torn:
			result.State, result.Message = topsv1.HostTaskFailed, "the record is lost"
		case !begun.ended:
			return true
		case begun.before == m.runs:
			result.State, result.Message = topsv1.HostTaskFailed, "the daemon is the one that it was"
		case m.runtime != "enflame":
			result.State, result.Message = topsv1.HostTaskFailed, "another default runtime"
		default:
			end := h.clock(w)
			result.Reason, result.EndTime = "Restarted", &end
		}
	case upgradeplan.ActionVerify:
		if t.Target == upgradeplan.TargetAllocatable {
			return true
		}
	default:
		return true
	}
	m.results = append(slices.DeleteFunc(m.results, func(r topsv1.HostTaskResult) bool { return r.Operation == op && r.Task == asked.Name }), result)
	m.reported = time.Time{}
	return !w.agentDies(h)
}

// finishRestarts continues the restarts that were begun, requested or not; false if the agent
// died.
func (w *simWorld) finishRestarts(h *simHost) bool {
	m := h.machine
	for _, op := range simSorted(m.begun) {
		b := m.begun[op]
		switch {
		case b.ended || b.torn:
		case b.before != m.runs || !w.now.Before(b.deadline):
			b.ended = true
		default:
			w.restartRuntime(h, op)
			return !w.agentDies(h)
		}
	}
	return true
}

// restarting reports whether a restart was begun and has not ended.
func (m *simMachine) restarting() bool {
	for _, b := range m.begun {
		if !b.ended && !b.torn {
			return true
		}
	}
	return false
}

// restartRuntime is the true restart; the checks see the state just before it.
func (w *simWorld) restartRuntime(h *simHost, op string) {
	m := h.machine
	w.say("host %s: the runtime restarts for %s", h.name, op)
	w.checkDisturbed(h, "the runtime restarts", m.left(m.stops), op)
	if u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name}); u != nil && u.Spec.Operation != nil && u.Spec.Operation.ID == op {
		w.checkWithoutRequest(h, u.Spec.Operation)
	}
	m.runs++
	m.runtime = "enflame"
	if m.restarts[op]++; m.restarts[op] > 1 {
		w.violate("S11: the runtime of %s was restarted %d times for %s", h.name, m.restarts[op], op)
	}
	toolkit := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, simNamespace, upgradeplan.TargetToolkit))
	if toolkit != nil && !w.calm && strings.HasPrefix(toolkit.Spec.Template.Spec.Containers[0].Image, "stun") {
		w.say("version %s takes its node down", toolkit.Spec.Template.Spec.Containers[0].Image)
		w.powerOff(h)
	}
}

func (w *simWorld) agentDies(h *simHost) bool {
	if w.calm || !w.chance(6) {
		return false
	}
	h.machine.agentDownUntil = w.now.Add(w.seconds(0, 60))
	if w.chance(4) {
		h.machine.agentDownUntil = w.now.Add(w.seconds(60, 900))
	}
	return true
}

func (w *simWorld) reportHost(h *simHost, u *topsv1.NodeUpgrade) {
	m := h.machine
	m.reported = w.now
	cards := int32(simCardsThere)
	if m.driver == "" {
		cards = 0
	}
	report := &topsv1.HostReport{Time: h.clock(w), BootID: fmt.Sprint("boot-", h.since.Unix()), DriverVersion: m.driver, Devices: &cards,
		Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: m.runtime, RestartStopsContainers: ptr.To(m.stops)}}
	for _, r := range m.results {
		if op := u.Status.Operation; op != nil && op.ID == r.Operation {
			report.Results = append(report.Results, r)
		}
	}
	simapi.Edit(w.api, simapi.KeyOf(u), func(u *topsv1.NodeUpgrade) {
		u.Status.Host, u.Status.Agent = report, &topsv1.AgentStatus{RestartsRuntime: m.says}
	})
}
