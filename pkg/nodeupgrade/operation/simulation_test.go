package operation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simseeds"
)

// TestSimulation plays operations on one node, with two managers that read stale state and
// die at any line, an agent that also dies, a node that goes offline and returns, and people.
// After every step it checks the invariants of design section 7 against the true state.
func TestSimulation(t *testing.T) {
	machine := newMachine(t)
	reaches := []string{string(topsv1.OperationDone), string(topsv1.OperationFailed), string(topsv1.OperationDeferred),
		string(topsv1.OperationAborted), string(topsv1.OperationQuarantined)}
	simseeds.Simulation{Name: "node", Short: 400, Reaches: reaches, Play: func(_ *testing.T, seed uint64) simseeds.Run {
		w, ends := newWorld(nil, seed), map[string]int{}
		over := make(chan struct{})
		go func() {
			defer close(over)
			play(w, machine, ends)
		}()
		<-over
		return simseeds.Run{Violation: w.violation, History: w.log, Steps: w.steps, Reached: ends}
	}}.Test(t)
}

// manager is one of two; late are the effects that it did not get to before it was
// interrupted.
type manager struct{ late []Effect }

func play(w *world, machine *Machine, ends map[string]int) {
	managers := [2]manager{}
	for round := range 1 + w.rng.IntN(3) {
		w.version++
		w.draw(round)
		for range 60 + w.rng.IntN(120) {
			w.disturb()
			w.grant()
			w.turn(machine, &managers[w.rng.IntN(2)], true)
			w.check()
		}
	}
	w.settle()
	w.outlast(machine)
	for i := range managers {
		for _, e := range managers[i].late {
			w.apply(e)
		}
		managers[i].late = nil
	}
	w.finish(machine, ends)
}

// draw requests an operation for a new version.
func (w *world) draw(round int) {
	kinds := [][]string{{upgradeplan.TargetDriver}, {upgradeplan.TargetToolkit}, {upgradeplan.TargetDevicePlugin, upgradeplan.TargetNFD},
		{upgradeplan.TargetDriver, upgradeplan.TargetToolkit, upgradeplan.TargetExporter, upgradeplan.TargetNFD}}
	changed := kinds[w.rng.IntN(len(kinds))]
	version := fmt.Sprintf("v%d", round+2)
	for _, c := range changed {
		m := w.member(c)
		m.newest = version
		if w.rng.IntN(6) == 0 {
			m.bad = version
		}
	}
	if slices.Contains(changed, upgradeplan.TargetToolkit) {
		w.host.runtime = "runc"
	}
	w.offer(fmt.Sprintf("op%d", round), changed...)
	w.nu.Spec.Operation.OnlyIdle = len(changed) == 1 && changed[0] == upgradeplan.TargetToolkit && w.rng.IntN(2) == 0
	w.grantIn = 0
	switch w.rng.IntN(4) {
	case 0: // granted from the start
	case 1:
		w.nu.Spec.Operation.Granted = false // never
	default:
		w.nu.Spec.Operation.Granted, w.grantIn = false, 1+w.rng.IntN(80) // before it is prepared, or long after
	}
}

// grant gives the operation its slot when it is time.
func (w *world) grant() {
	if w.grantIn == 0 || w.nu.Spec.Operation == nil {
		return
	}
	if w.grantIn--; w.grantIn == 0 {
		w.nu.Spec.Operation.Granted = true
		w.touch()
		w.note("granted")
	}
}

// disturb makes something unexpected happen.
func (w *world) disturb() {
	switch w.rng.IntN(60) {
	case 0:
		w.ready, w.since = !w.ready, w.now
		w.note("ready: %v", w.ready)
	case 1:
		w.host.silent = !w.host.silent
	case 2:
		w.blocked = !w.blocked
		w.note("blocked: %v", w.blocked)
	case 3:
		w.person()
	case 4:
		if w.rng.IntN(5) == 0 && w.host.driver != "v1" {
			w.host.devices = int32(7 + w.rng.IntN(2))
		}
	case 6:
		m := w.members[w.rng.IntN(len(w.members))]
		m.barred = map[string]string{"": tainted}[m.barred]
		w.note("pods of %s are kept away: %v", m.component, m.barred != "")
	case 5:
		w.now = w.now.Add(time.Duration(w.rng.IntN(20)) * time.Minute)
	case 7:
		w.jump()
	}
}

// person cordons, uncordons, aborts, withdraws or overrides.
func (w *world) person() {
	op := w.nu.Spec.Operation
	switch w.rng.IntN(6) {
	case 0, 1:
		w.cordonByHand()
	case 2:
		if op != nil {
			op.Abort = true
			w.touch()
			w.note("a person aborts")
		}
	case 3:
		if w.rng.IntN(3) == 0 {
			w.nu.Spec.Operation = nil
			w.touch()
			w.note("the operation is withdrawn")
		}
	default:
		if status := w.nu.Status.Operation; status != nil && len(status.Tasks) > 0 {
			task := status.Tasks[w.rng.IntN(len(status.Tasks))].Name
			verb := []string{"retry", "skip", "undo", "nonsense"}[w.rng.IntN(4)]
			if t, _ := upgradeplan.ParseTask(task); verb == "skip" && t.Action != upgradeplan.ActionSoak && t.Action != upgradeplan.ActionPrepull {
				verb = "retry" // a skipped task is exempt from the checks
			}
			w.nu.Annotations = map[string]string{topsv1.AnnotationTaskOverride: fmt.Sprintf("%s:%s:%d", verb, task, w.version)}
			w.touch()
			w.note("override %s", w.nu.Annotations[topsv1.AnnotationTaskOverride])
		}
	}
}

func (w *world) cordonByHand() {
	if w.node.Mark != "" {
		return // kubectl cordon changes nothing on a node that is cordoned
	}
	w.foreign = !w.foreign
	w.node.Unschedulable, w.node.SetByOther, w.node.ResourceVersion = w.foreign, w.foreign, w.bump()
	w.note("a person cordons: %v", w.foreign)
	if status := w.nu.Status.Operation; !w.foreign && status != nil && !status.Phase.Final() {
		w.excused = true
	}
}

// turn lets time pass, and the kubelet, the agent and one manager act.
func (w *world) turn(machine *Machine, m *manager, faults bool) {
	w.steps++
	chance := func(in int) bool { return faults && w.rng.IntN(in) == 0 }
	w.now = w.now.Add(time.Duration(1+w.rng.IntN(15)) * time.Second)
	seen, seenAt := w.facts(), w.nuAt
	if chance(3) || !faults {
		w.agent(func() bool { return chance(6) })
	}
	w.kubelet()
	if chance(150) {
		w.person()
	}
	if !chance(5) {
		seen, seenAt = w.facts(), w.nuAt // not stale
	}
	d := machine.Next(seen)
	if !sameRecord(d.Record, seen.Record) && !w.store(d.Record, seenAt) {
		return
	}
	if chance(8) {
		return // dies after storing the record, or loses the response, which is the same
	}
	for _, e := range d.Effects {
		if chance(6) {
			m.late = append(m.late, e)
			continue
		}
		w.apply(e)
	}
	if len(m.late) > 0 && chance(6) {
		e := m.late[0]
		m.late = m.late[1:]
		w.note("late: %s", e.Kind)
		w.apply(e)
	}
}

// check checks the invariants that hold at every moment.
func (w *world) check() {
	op := w.nu.Status.Operation
	if w.foreign && !w.node.Unschedulable {
		w.violate("S4: the cordon of a person is gone")
	}
	if op != nil && op.Phase == topsv1.OperationDone && op.Held {
		w.violate("S3: the node is held after success")
	}
	seen := map[string]bool{}
	if op != nil && !op.Granted && op.Touched {
		w.violate("operation %s touched the node without a slot", op.ID)
	}
	if op != nil && op.Touched && !isWhole(op) {
		w.violate("operation %s touched the node, and no task that does was attempted", op.ID)
	}
	for _, r := range w.nu.Status.History {
		if seen[r.ID] {
			w.violate("S6: operation %s ended twice", r.ID)
		}
		seen[r.ID] = true
	}
}

// settle ends all faults.
func (w *world) settle() {
	w.note("faults stop")
	w.ready, w.since, w.host.silent, w.blocked = true, w.now, false, false
	for _, m := range w.members {
		m.barred = ""
	}
	w.nu.Annotations = nil
	w.touch()
}

// outlast checks that a prepared operation without a slot waits for it longer than any
// deadline, and then grants it.
func (w *world) outlast(machine *Machine) {
	if w.nu.Spec.Operation == nil || w.nu.Spec.Operation.Granted {
		return
	}
	for range 120 {
		w.turn(machine, &manager{}, false)
		w.check()
	}
	prepared := w.nu.Status.Operation.PreparedTime != nil
	for until := w.now.Add(5 * time.Hour); w.now.Before(until); w.now = w.now.Add(time.Minute) {
		w.turn(machine, &manager{}, false)
		w.check()
	}
	if op := w.nu.Status.Operation; op.ID == w.nu.Spec.Operation.ID && op.Phase.Final() && !op.Granted {
		return // it ended before the faults stopped
	} else if op.ID != w.nu.Spec.Operation.ID && op.Held { // it takes over the cordon once it is granted
		w.nu.Spec.Operation.Granted = true
		w.touch()
		return
	} else if !prepared || op.Reason != ReasonAwaitingSlot && !awaitsRequest(&Facts{Record: Record{Operation: op}}) || op.Phase != topsv1.OperationRunning {
		w.violate("operation %s does not wait for its slot: %s %s %s", op.ID, op.Phase, op.Reason, op.Message)
	}
	w.nu.Spec.Operation.Granted = true
	w.touch()
	w.note("granted at last")
}

// finish runs on without faults until nothing changes any more, which must happen (L2), and
// checks the invariants of the end.
func (w *world) finish(machine *Machine, ends map[string]int) {
	limit := w.now.Add(6 * time.Hour)
	for w.now.Before(limit) {
		w.turn(machine, &manager{}, false)
		w.check()
		op := w.nu.Status.Operation
		if op == nil || op.Phase.Final() {
			f := w.facts()
			if d := machine.Next(f); sameRecord(d.Record, f.Record) && len(d.Effects) == 0 {
				break
			}
		}
	}
	for _, r := range w.nu.Status.History {
		ends[string(r.Phase)]++
	}
	w.checkEnd()
}

func (w *world) checkEnd() {
	op := w.nu.Status.Operation
	if op == nil {
		return
	}
	if !op.Phase.Final() {
		w.violate("L2: operation %s is %s after all deadlines", op.ID, op.Phase)
	}
	if !op.Held && (w.node.Mark != "" || w.taint != "") {
		w.violate("S3: after %s the node has mark %q and taint %q", op.Phase, w.node.Mark, w.taint)
	}
	if !op.Held && w.node.Unschedulable != w.foreign {
		w.violate("S3: after %s the node is unschedulable: %v, a person wants it so: %v", op.Phase, w.node.Unschedulable, w.foreign)
	}
	if op.Held && (op.Phase == topsv1.OperationDone || op.CordonedBy == "" && (op.Phase == topsv1.OperationAborted || op.Phase == topsv1.OperationDeferred)) {
		w.violate("S3: the node is held after %s", op.Phase)
	}
	if op.Phase == topsv1.OperationDone && op.ID == w.asked { // a later one had other targets, and was withdrawn
		w.checkDone(op)
	}
}

// checkDone checks S10: whatever was not skipped or undone is at its target and works.
func (w *world) checkDone(op *topsv1.OperationStatus) {
	for _, rec := range op.Tasks {
		task, err := upgradeplan.ParseTask(rec.Name)
		if err != nil {
			w.violate("%v", err)
		}
		if rec.State == topsv1.OperationTaskSkipped || rec.State == topsv1.OperationTaskUndone || task.Action != upgradeplan.ActionReplace {
			continue
		}
		m := w.member(task.Target)
		if m.pod == nil || !m.pod.Available || m.pod.Revision != m.newest {
			w.violate("S10: %s is done, and the pod of %s is %+v, wanted %s", op.ID, m.component, m.pod, m.newest)
		}
	}
}
