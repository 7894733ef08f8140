package daemonupdater

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simCards is the resource that the device plugin offers, simCardsThere the number of cards.
const (
	simCards      = "enflame.com/gcu"
	simCardsThere = 8
)

// simMachine is what runs below the kubelet of a host: the driver, the runtime, the pods of
// users, and the node agent with its disk.
type simMachine struct {
	driver  string    // loaded version, "" for none
	runtime string    // default runtime of the daemon
	runs    int       // instance of the daemon
	began   time.Time // when it did, by the clock of the host
	// configured is the default runtime in the configuration of the daemon.
	configured string
	stops      bool // a restart stops the containers
	// installed is the pod whose start last changed the host, by component.
	installed map[string]types.UID
	restarts  map[string]int // of the runtime, by operation
	// foreign: a person wants the node cordoned. excused: someone uncordoned it during an
	// operation, which no manager can react to in time. forgotten: its NodeUpgrade was deleted.
	foreign, excused, forgotten bool
	// broken: no driver finds the cards.
	broken bool
	// spoils is since when the driver spoils pods (sim_faultydriver_test.go).
	spoils time.Time
	// blind: the plugin was started before the runtime was right. byHand: the agent leaves restarts
	// to an administrator; says is what it reports of that.
	blind, byHand bool
	says          *bool

	agent                    *simAgent // nil while it is down
	agentDownUntil, cutUntil time.Time
	// disk are the records of the agent by task, and lost those that cannot be read.
	disk map[string]task.Record
	lost map[string]bool
	// asked are the restarts that the service manager was asked for.
	asked []simRestart
}

// simRestart is a restart of the runtime for an operation.
type simRestart struct {
	op string
	at time.Time
}

func (w *simWorld) addMachine(h *simHost) {
	if w.ops == nil {
		return
	}
	h.machine = &simMachine{driver: "good-0", runtime: simPick(w.rng, "runc", "runc", "enflame"), stops: w.chance(3),
		installed: map[string]types.UID{}, restarts: map[string]int{}, disk: map[string]task.Record{}, lost: map[string]bool{}}
	h.machine.configured = h.machine.runtime
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
		w.runUsers(h)
		w.runAgent(h)
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

// installs applies to the host what the start of a component does, once per pod.
func (w *simWorld) installs(h *simHost, pod *corev1.Pod) {
	if h.machine == nil {
		return
	}
	component, image := simOwner(pod).Name, pod.Spec.Containers[0].Image
	if h.machine.installed[component] == pod.UID {
		return
	}
	h.machine.installed[component] = pod.UID
	switch component {
	case upgradeplan.TargetDevicePlugin:
		w.startPlugin(h)
	case upgradeplan.TargetToolkit:
		h.machine.configured = topsv1.DefaultRuntime
	}
	if component != upgradeplan.TargetDriver {
		return
	}
	if h.machine.driver = image; h.machine.broken || strings.HasPrefix(image, "noload") {
		h.machine.driver = ""
	}
}

// restarting reports whether a restart was begun and has not ended.
func (m *simMachine) restarting() bool {
	for _, r := range m.disk {
		if r.Begun != nil && !r.Final() {
			return true
		}
	}
	return len(m.asked) > 0
}

// restartRuntime is the true restart; the checks see the state just before it.
func (w *simWorld) restartRuntime(h *simHost, op string) {
	m := h.machine
	w.say("host %s: the runtime restarts for %s", h.name, op)
	w.checkDisturbed(h, "the runtime restarts", w.left(h, m.stops), op)
	if u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name}); u != nil && u.Spec.Operation != nil && u.Spec.Operation.ID == op {
		w.checkWithoutRequest(h, u.Spec.Operation)
	}
	m.runs++
	m.began = h.clock(w).Time
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
