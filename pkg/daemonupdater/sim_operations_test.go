package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simOps is the additional state of a seed with operations.
type simOps struct {
	// guarded is the node from which no pod of a user can be evicted.
	guarded string
	// known operations by id.
	known map[string]*simOp
	// before is the last state of every NodeUpgrade.
	before map[string]*topsv1.NodeUpgrade
	// stray is since when a node has the mark of an ended operation.
	stray map[string]time.Time
	ends  map[topsv1.OperationPhase]int
	// asked are the nodes that have ever made a request.
	asked map[string]bool
	// eventTexts is since when a rollout says that restarts are left to the administrator.
	told time.Time
}

// simSecond is a second gr on the nodes of the fleet.
var simSecond = observed.Group{Kind: observed.KindGcuResource, Name: "second"}

// withOperations gives the grs of a world heavy components.
func (w *simWorld) withOperations() {
	w.ops = &simOps{known: map[string]*simOp{}, asked: map[string]bool{}, before: map[string]*topsv1.NodeUpgrade{}, stray: map[string]time.Time{}, ends: map[topsv1.OperationPhase]int{}}
}

func (w *simWorld) goldenOperations() {
	w.withOperations()
	w.golden()
}

// addHeavyGroups draws the grs of a seed with operations.
func (w *simWorld) addHeavyGroups(shape int) {
	switch shape {
	case 0:
		w.addGroup(simFleet, "driver", "toolkit", "devicePlugin", "exporter")
	case 1:
		w.addGroup(simFleet, "driver", "devicePlugin", "recorder")
		w.addGroup(simSecond, "toolkit", "gfd")
	case 2:
		w.addGroup(simFleet, "driver", "exporter")
	case 3:
		w.addGroup(simFleet, "nfd", "driver", "toolkit", "devicePlugin")
	case 4:
		w.addGroup(simFleet, "driver", "devicePlugin")
		w.addGroup(simSecond, "toolkit", "gfd")
	}
	if shape > 1 {
		w.addGroup(simSingle, "single")
	}
}

// operations is chaos among operations; then the faults stop.
func (w *simWorld) operations() {
	w.withOperations()
	w.knobs = w.randomKnobs()
	w.populate(2 + w.rng.IntN(4))
	w.say("knobs %+v", w.knobs)
	w.knowGood()
	back := w.policies == nil && w.chance(2)
	if back {
		w.goBackByThemselves()
	}
	w.push(w.groups[0], w.chance(w.knobs.bad))
	for range 120 + w.rng.IntN(160) {
		if back && w.chance(30) {
			w.goBackByThemselves()
		}
		w.step()
		if w.failed() {
			return
		}
	}
	w.settle()
	if w.chance(2) {
		w.badDriver()
	}
	if !w.failed() {
		w.finale()
	}
}

// badKinds are the kinds of bad versions.
func (w *simWorld) badKinds() []string {
	kinds := []string{"crash", "hang", "kill", "relapse", simSlowly}
	if w.ops != nil {
		kinds = append(kinds, "noload", "stun")
	}
	return kinds
}

// settleMachines repairs the machines.
func (w *simWorld) settleMachines() {
	if w.ops == nil {
		return
	}
	w.settleUsers()
	for _, h := range w.hosts {
		if h.machine.foreign {
			w.cordonByHand(h)
		}
	}
}

// badDriver pushes a broken driver once all is well: the policy rolls it back automatically.
func (w *simWorld) badDriver() {
	g := w.groups[0]
	if g.id != simFleet || w.stuck != "" || w.ops.guarded != "" {
		return
	}
	w.policies = nil
	w.goBackByThemselves()
	kinds := []string{"crash", "hang", "noload", "relapse"}
	var meanwhile []func(*simGroup)
	spoils := w.hash("driver")%3 == 0
	if w.chance(2) && !spoils { // else no operation fails
		meanwhile = append(meanwhile, w.retryWhatFailed)
	} else {
		kinds = append(kinds, simSlowly)
	}
	if w.chance(2) && !spoils {
		meanwhile = append(meanwhile, w.breakMachine)
	}
	driver := slices.IndexFunc(g.sets, func(key simapi.Key) bool { return key.Name == "driver" })
	kind := simPick(w.rng, kinds...)
	if spoils {
		kind = simSpoils
	}
	w.badAtLast(g, driver, kind, append([]func(*simGroup){w.verifiesDriver}, meanwhile...)...)
	w.verifyDriver("")
}

// verifiesDriver has every group, in some seeds, name a policy with the version of the newest driver of one.
func (w *simWorld) verifiesDriver(g *simGroup) {
	driver := slices.IndexFunc(g.sets, func(key simapi.Key) bool { return key.Name == "driver" })
	if driver < 0 || w.hash("verifies")%3 == 0 {
		return
	}
	w.goBackByThemselves()
	w.verifyDriver(w.imagesOf(g)[driver])
}

// verifyDriver sets the version of the driver in the policy that rolls back.
func (w *simWorld) verifyDriver(version string) {
	w.say("admin: the driver has to be %q", version)
	simapi.Edit(w.api, simapi.Key{Kind: simPolicies, Name: simBack}, func(p *topsv1.UpgradePolicy) {
		p.Spec.Validation = &topsv1.ValidationPolicy{DriverVersion: version}
		p.Generation++
	})
}

// retryWhatFailed has a person retry the tasks that a bad driver fails, also while it is rolled back.
func (w *simWorld) retryWhatFailed(*simGroup) {
	w.until("a node is kept cordoned", time.Hour, func() bool { return w.anyHeld() != nil })
	for range 1 + w.rng.IntN(4) {
		w.later(w.seconds(0, 600), func() {
			if u := w.anyHeld(); u != nil {
				w.overrideTask(u)
			}
		})
	}
}

// anyHeld returns the NodeUpgrade of a node that an operation which failed keeps cordoned, nil for none.
func (w *simWorld) anyHeld() *topsv1.NodeUpgrade {
	for _, h := range w.hosts {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
		if u != nil && u.Status.Operation != nil && u.Status.Operation.Held {
			return u
		}
	}
	return nil
}

// breakMachine breaks the machine on which the driver failed: then the rollback fails there too,
// and the node stays quarantined until the machine is repaired and a person resumes the rollout.
func (w *simWorld) breakMachine(g *simGroup) {
	var h *simHost
	w.until("a node fails", time.Hour, func() bool {
		if r := w.rolloutOf(g.id); len(r.Status.Failed) > 0 {
			h = w.host(r.Status.Failed[0].Node)
		}
		return h != nil
	})
	if w.failed() {
		return
	}
	w.say("host %s is broken", h.name)
	h.machine.broken = true
	w.until("S3: a node on which the rollback fails is kept", 2*time.Hour, func() bool {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
		return u.Status.Operation.Phase == topsv1.OperationQuarantined && u.Status.Operation.Held
	})
	w.say("host %s is repaired", h.name)
	h.machine.broken = false
	if driver := w.podOn(simapi.Named(simSets, simNamespace, "driver"), h.name); driver != nil {
		h.machine.driver = driver.Spec.Containers[0].Image
	}
	w.until("the node counts as failed", time.Minute, func() bool { return len(w.rolloutOf(g.id).Status.Failed) > 0 })
	w.annotateRollout(w.rolloutOf(g.id), topsv1.AnnotationResume, fmt.Sprint("word-", w.api.Counter))
}

// disturbOperations draws faults of machines and operations, and actions of people.
func (w *simWorld) disturbOperations() {
	if w.ops == nil {
		return
	}
	w.forgetOperations()
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	m := h.machine
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
	if u != nil && u.Status.Operation != nil && (w.chance(40) || u.Status.Operation.Held && w.chance(4)) {
		w.overrideTask(u)
	}
	if !w.chance(12) {
		return
	}
	switch w.rng.IntN(14) {
	case 0, 1:
		w.cordonByHand(h)
	case 2, 3, 4:
		budget := w.guard(h.name)
		w.later(w.seconds(30, 900), func() { w.api.Remove(budget) })
	case 5:
		m.agentDownUntil = w.now.Add(w.seconds(5, 900))
	case 6:
		m.cutUntil = w.now.Add(w.seconds(5, 1200))
	case 7:
		w.damageDisk(h)
	case 8, 9:
		if u != nil && u.Spec.Operation != nil {
			w.say("admin: the operation of %s is aborted", h.name)
			simapi.Edit(w.api, simapi.KeyOf(u), func(u *topsv1.NodeUpgrade) { u.Spec.Operation.Abort = true })
		}
	case 10:
		if u != nil && w.chance(3) && !w.restarts(m) {
			w.say("admin: NodeUpgrade %s is deleted", h.name)
			w.forget(h)
		}
	case 11:
		if g := w.groups[w.rng.IntN(len(w.groups))]; g.spec != nil && len(w.groups) > 1 && w.chance(4) {
			w.deleteGr(g)
		}
	case 12, 13:
		if u != nil && (u.Status.Operation == nil || u.Status.Operation.Phase.Final()) && h.up && !w.goesOn(m) && !w.hasRestartedUnderSlot(h) {
			w.say("host %s: somebody changes the runtime back", h.name)
			m.runtime = "runc"
			w.reportsSoon(h)
		}
	}
}

// overrideTask has a person retry or skip a task of an operation: one that has failed and keeps its node
// cordoned goes on.
func (w *simWorld) overrideTask(u *topsv1.NodeUpgrade) {
	tasks := u.Status.Operation.Tasks
	if len(tasks) == 0 {
		return
	}
	t := tasks[w.rng.IntN(len(tasks))]
	if failed := slices.IndexFunc(tasks, func(t topsv1.OperationTask) bool { return t.State == topsv1.OperationTaskFailed }); failed >= 0 && !w.chance(4) {
		t = tasks[failed]
	}
	value := fmt.Sprintf("retry:%s:%d", t.Name, w.rng.IntN(1000))
	w.say("admin: %s of operation %s, which is %s", value, u.Status.Operation.ID, u.Status.Operation.Phase)
	w.setOverride(u.Name, value)
}

// skipsCards has a person do what a failed operation says that needs the cards of a device plugin which is gone: they count from before
// an earlier operation that failed, and the gr of the plugin was deleted since.
func (w *simWorld) skipsCards() {
	if w.api.Objects[simapi.Named(simSets, simNamespace, upgradeplan.TargetDevicePlugin)] != nil {
		return
	}
	for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		op := u.Status.Operation
		if op == nil || !op.Held || !strings.Contains(op.Message, fmt.Sprintf("no gr has a device plugin there; it was so before operation %s failed on the node: "+
			"if less is right now, kubectl gcu task skip %s allocatable_verify", op.CordonedBy, u.Name)) {
			continue
		}
		w.say("admin: the cards of %s are skipped in operation %s, which is %s", u.Name, op.ID, op.Phase)
		w.setOverride(u.Name, "skip:"+u.Name+"_allocatable_verify:"+op.ID)
	}
}

// setOverride writes an override of a task of a node.
func (w *simWorld) setOverride(node, value string) {
	simapi.Edit(w.api, simapi.Key{Kind: simUpgrades, Name: node}, func(u *topsv1.NodeUpgrade) {
		metav1.SetMetaDataAnnotation(&u.ObjectMeta, topsv1.AnnotationTaskOverride, value)
	})
}

// restarts reports whether a restart of the runtime of a machine has begun for an operation that has not
// ended: if that begins again under its id, it may have no time left to restart, and nobody here resumes the rollout.
func (w *simWorld) restarts(m *simMachine) bool {
	for _, r := range m.disk {
		if op := w.ops.known[r.Result.ID]; op != nil && !op.ended && r.Begun != nil {
			return true
		}
	}
	return false
}

// goesOn reports whether an operation has had the runtime of a machine restarted, and has not ended:
// that the runtime is set back then fails the operation, and nobody here resumes the rollout.
func (w *simWorld) goesOn(m *simMachine) bool {
	for _, r := range m.disk {
		if op := w.ops.known[r.Result.ID]; op != nil && !op.ended && r.Result.Reason == task.ReasonRestarted {
			return true
		}
	}
	return false
}

// damageDisk damages the records of restarts on a machine, or loses the disk.
func (w *simWorld) damageDisk(h *simHost) {
	m := h.machine
	m.excused = m.excused || len(m.asked) > 0 // no record says any more that this restart may still come
	if w.chance(2) {
		w.say("host %s loses its disk", h.name)
		clear(m.disk)
		clear(m.lost)
		clear(m.restarts) // lost with the disk
		m.agent.dies()
		m.agent = nil
		return
	}
	for key, r := range m.disk {
		if r.Begun != nil {
			m.lost[key] = true
			delete(m.disk, key)
		}
	}
	m.agent.dies() // it reads the records when it starts
	m.agent = nil
}

// simSetUnschedulable cordons or uncordons as a field manager.
func simSetUnschedulable(n *corev1.Node, manager string, on bool) {
	n.Spec.Unschedulable = on
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:unschedulable":{}}}`)}}}
}

// cordonByHand acts as a person with kubectl, who leaves a cordoned node alone, but may uncordon
// one that an operation has cordoned.
func (w *simWorld) cordonByHand(h *simHost) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	if node == nil {
		return
	}
	on := !h.machine.foreign
	if on && node.Spec.Unschedulable {
		if !w.chance(4) {
			return
		}
		on = false
		h.machine.excused = true
	}
	h.machine.excused = h.machine.excused || !on
	h.machine.foreign = on
	w.say("admin: node %s cordoned=%v", h.name, on)
	simapi.Edit(w.api, simNodeKey(h.name), func(n *corev1.Node) { simSetUnschedulable(n, "kubectl", on) })
}
