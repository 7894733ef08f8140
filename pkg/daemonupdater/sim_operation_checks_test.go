package daemonupdater

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simOp is what the checks record about an operation.
type simOp struct {
	group   observed.Group
	node    string
	granted bool // at any time
	ended   bool
	// started is when its last start, or its grant, was recorded, by the true time.
	started time.Time
	// resumed is when a person had it go on after it had failed, zero for never.
	resumed time.Time
	// driver: it deleted the driver of its node.
	driver bool
	// lost: a restored backup took its record back. A manager that read it before may store it
	// again, because versions were given out twice.
	lost bool
}

// orderByUs is a patch of the spec of a NodeUpgrade by a manager.
func (w *simWorld) orderByUs(pass *simPass, object client.Object, kind types.PatchType, data []byte) error {
	if !strings.Contains(string(data), `"resourceVersion"`) {
		w.violate("S5: an operation of %s is ordered without a precondition", object.GetName())
	}
	stored := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.KeyOf(object))
	if stored == nil {
		return apierrors.NewNotFound(simapi.Resource(simapi.KeyOf(object)), object.GetName())
	}
	if strings.Contains(string(data), `"granted":true`) {
		w.mayBeDown(pass, object.GetName())
	}
	known := len(w.ops.known)
	err := w.api.Patch(object, kind, data, simapi.Spec, "")
	after := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.KeyOf(object))
	if before, now := stored.Spec.Operation, after.Spec.Operation; before != nil && now != nil && len(w.ops.known) > known && w.answers(pass) {
		w.checkReplaced(after, before, now)
	}
	return err
}

// checkReplaced checks that a manager replaces an operation only by one that differs: the node would begin again.
func (w *simWorld) checkReplaced(u *topsv1.NodeUpgrade, before, now *topsv1.NodeOperation) {
	renamed := before.DeepCopy()
	renamed.ID = now.ID
	if !w.ops.known[before.ID].ended && !w.hasSlot(u.Name, now.ID, w.ops.known[now.ID].group) && equality.Semantic.DeepEqual(renamed, now) {
		w.violate("operation %s of %s begins again as %s, though it is the same", before.ID, u.Name, now.ID)
	}
}

// checkUpgrade checks a NodeUpgrade against the one before.
func (w *simWorld) checkUpgrade(now *topsv1.NodeUpgrade) {
	before := w.ops.before[now.Name]
	w.ops.before[now.Name] = now
	if before == nil || before.UID != now.UID {
		before = &topsv1.NodeUpgrade{}
	}
	w.checkOrder(now, before.Spec.Operation, now.Spec.Operation)
	w.checkRecord(now, before.Status.Operation, now.Status.Operation)
	seen := map[string]bool{}
	for _, r := range now.Status.History {
		if seen[r.ID] {
			w.violate("S6: operation %s ended twice", r.ID)
		}
		seen[r.ID] = true
		if op := w.ops.known[r.ID]; op != nil && !op.ended {
			op.ended = true
			w.ops.ends[r.Phase]++
			if r.Phase == topsv1.OperationDone {
				w.checkForgotten(r.ID, now)
			}
			if asked := now.Spec.Operation; r.Phase == topsv1.OperationDone && asked != nil && asked.ID == r.ID && slices.ContainsFunc(asked.Targets, func(t topsv1.OperationTarget) bool { return t.KeptFrom != "" }) {
				w.backByOperation++
			}
			w.say("operation %s of %s ends: %s %s: %s", r.ID, op.node, r.Phase, r.Reason, r.Message)
		}
	}
}

// checkOrder checks spec.operation against the one before: the rules of the API server, and that
// a slot precedes a grant.
func (w *simWorld) checkOrder(u *topsv1.NodeUpgrade, before, now *topsv1.NodeOperation) {
	if now == nil {
		return
	}
	if len(now.Job) == 0 || len(now.Targets) == 0 {
		w.violate("CEL: the API server refuses operation %s, which has no tasks", now.ID)
	}
	name := strings.TrimPrefix(now.Rollout, "gcu-system/")
	isNew := w.ops.known[now.ID] == nil
	if isNew {
		w.ops.known[now.ID] = &simOp{group: observed.Group{Kind: observed.KindGcuResource, Name: name}, node: u.Name}
		w.say("operation %s of %s is made, granted=%v: %v", now.ID, u.Name, now.Granted, now.Job)
		w.checkCreatedWithoutRequest(u, now, w.opGroup(now.ID))
	}
	if before != nil && before.ID == now.ID {
		same := before.NodeUID == now.NodeUID && before.Purpose == now.Purpose &&
			equality.Semantic.DeepEqual(before.Targets, now.Targets) && equality.Semantic.DeepEqual(before.Job, now.Job)
		if !same || before.Abort && !now.Abort || before.Granted && !now.Granted {
			w.violate("CEL: the API server refuses this change of operation %s", now.ID)
		}
	}
	op := w.ops.known[now.ID]
	if !now.Granted || op.granted {
		return
	}
	op.granted = true
	w.say("operation %s of %s is granted", now.ID, u.Name)
	gone := w.opGroup(now.ID) == nil && w.rolloutOf(op.group) == nil // its gr and its ledger were deleted since the manager looked
	if !op.ended && !gone && !w.hasSlot(u.Name, now.ID, op.group) {
		w.violate("ledger: operation %s of %s is granted and no slot names it", now.ID, u.Name)
	}
}

func (w *simWorld) hasSlot(node, id string, g observed.Group) bool {
	stored := w.rolloutOf(g)
	return stored != nil && slices.ContainsFunc(stored.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == node && s.Operation == id })
}

// checkRecord checks status.operation against the one before.
func (w *simWorld) checkRecord(u *topsv1.NodeUpgrade, before, now *topsv1.OperationStatus) {
	if now == nil {
		return
	}
	if op := w.ops.known[now.ID]; before != nil && before.ID != now.ID && simLives(before) && !simTakesOver(now, before) && (op == nil || !op.lost) {
		w.violate("S6: operation %s begins on %s before %s is over", now.ID, u.Name, before.ID)
	}
	fitsAgain := w.restores > 0 && !now.Granted // a write from before a restored etcd, with a version that came again; nothing was begun
	if before != nil && before.ID == now.ID && before.Phase.Final() && !before.Held && !now.Phase.Final() && !fitsAgain {
		w.violate("S6: operation %s of %s begins again", now.ID, u.Name)
	}
	if op := w.ops.known[now.ID]; op != nil && before != nil && before.ID == now.ID && before.EndTime != nil && now.EndTime == nil {
		w.say("operation %s of %s goes on: %s", now.ID, u.Name, now.Override)
		op.resumed, op.ended = w.now, false
	}
	if op := w.ops.known[now.ID]; op != nil && (before == nil || before.ID != now.ID || !before.StartTime.Equal(&now.StartTime)) {
		op.started = w.now
	}
	if op := w.ops.known[now.ID]; now.Granted && (op == nil || !op.granted) {
		w.violate("ledger: operation %s of %s took itself for granted", now.ID, u.Name)
	}
	dropped := len(now.Tasks) == 0 // by an older CRD, at last or before; so may now.Granted be
	unproven := now.Phase == topsv1.OperationAborted && now.Reason == operation.ReasonTargetChanged && w.isGranted(now.ID) && now.Touched && (operation.HasUnprovenDriver(now) || dropped)
	if now.Held && now.Phase != topsv1.OperationFailed && now.Phase != topsv1.OperationQuarantined && now.CordonedBy == "" && !unproven {
		w.violate("S3: node %s is held after %s", u.Name, now.Phase)
	}
	if asked := u.Spec.Operation; before != nil && before.Held && now.ID == before.ID && !now.Held && now.EndTime != nil &&
		asked != nil && asked.ID != now.ID && asked.Rollout == now.Rollout {
		w.violate("S3: %s goes back into service before operation %s has shown that it works", u.Name, asked.ID)
	}
}

// simTakesOver reports whether an operation takes over the cordon of the one before it.
func simTakesOver(now, before *topsv1.OperationStatus) bool {
	return before.Held && now.CordonedBy == operation.CordonMark(before)
}

// simLives reports whether an operation has not ended, or keeps its node cordoned.
func simLives(op *topsv1.OperationStatus) bool { return op != nil && (!op.Phase.Final() || op.Held) }

// simAtWork returns the operation that may have a node out of service, "" for none.
func simAtWork(u *topsv1.NodeUpgrade) string {
	if u != nil && simLives(u.Status.Operation) && u.Status.Operation.Granted {
		return u.Status.Operation.ID
	}
	return ""
}

// simHasNode reports whether an operation may have its node out of service by its record alone: one that touched its node
// was granted, also if older CRDs dropped that.
func simHasNode(op *topsv1.OperationStatus) bool { return simLives(op) && (op.Granted || op.Touched) }

// checkDisturbed is S8: the node is cordoned and empty.
func (w *simWorld) checkDisturbed(h *simHost, what string, left int, op string) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	if node == nil || h.machine.excused {
		return
	}
	if left > 0 || !node.Spec.Unschedulable {
		w.violate("S8: %s on %s for %s with %d pods on it, unschedulable: %v", what, h.name, op, left, node.Spec.Unschedulable)
	}
}

// opGroup returns the group of an operation, nil if it is gone.
func (w *simWorld) opGroup(id string) *simGroup {
	op := w.ops.known[id]
	if op == nil {
		return nil
	}
	i := slices.IndexFunc(w.groups, func(g *simGroup) bool { return g.id == op.group })
	if i < 0 {
		return nil
	}
	return w.groups[i]
}

// opAvailable reports whether the node of an operation is available by the rules of its group.
func (w *simWorld) opAvailable(id, node string) bool {
	g := w.opGroup(id)
	return g != nil && w.nodeAvailable(g.sets, node) && !w.takenOut(g.id, node)
}

// takenOut reports whether an operation of a group has cordoned a node.
func (w *simWorld) takenOut(g observed.Group, name string) bool {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(name))
	return w.ops != nil && node != nil && slices.ContainsFunc(simMarks(node), func(id string) bool {
		return w.ops.known[id] != nil && w.ops.known[id].group == g
	})
}

// opDown counts a node that an operation took out of service.
func (w *simWorld) opDown(id, node string, sets ...simapi.Key) {
	if g := w.opGroup(id); g != nil {
		w.checkBudget(g, node, sets...)
	}
}

// opTook counts a pod that an operation deleted.
func (w *simWorld) opTook(id, node string, pod *corev1.Pod, was bool) {
	g := w.opGroup(id)
	set := simapi.Named(simSets, pod.Namespace, simOwner(pod).Name)
	if g == nil || !slices.Contains(g.sets, set) {
		return
	}
	if d := w.account(g.id).down[node]; d != nil {
		d.sets = append(d.sets, set)
	} else if was {
		w.opDown(id, node, set)
	}
}

// checkNodes checks every node against the invariants that hold after every step.
func (w *simWorld) checkNodes() {
	if w.ops == nil {
		return
	}
	for _, h := range w.hosts {
		node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
		if node == nil {
			continue
		}
		if h.machine.foreign && !node.Spec.Unschedulable {
			w.violate("S4: the cordon of a person on %s is gone", h.name)
		}
		w.checkStray(node, u)
		if u == nil || w.ownerGone(u) {
			continue
		}
		op := u.Status.Operation
		if g := w.opGroup(simAtWork(u)); g != nil && op.EndTime == nil && w.rolloutOf(g.id) != nil && !w.hasSlot(h.name, op.ID, g.id) && !w.lost[simLost{g.id, h.name}] && !w.justResumed(op.ID) {
			w.violate("ledger: operation %s is at work on %s and no slot names it", op.ID, h.name)
		}
		if w.calm && op != nil && op.Granted && !op.Phase.Final() && w.managedFor(w.startOfOperation(op)) > 3*time.Hour {
			w.violate("L2: operation %s of %s is %s since %s", op.ID, h.name, op.Phase, w.startOfOperation(op).Sub(fixture.Epoch))
		}
	}
}

// isGranted reports whether an operation was granted at any time: it may have the node of its slot out of service already.
func (w *simWorld) isGranted(id string) bool {
	return w.ops != nil && w.ops.known[id] != nil && w.ops.known[id].granted
}

// justResumed reports whether a person had an operation go on so lately that no manager may have given
// it a slot again: the node is out of service already. A group whose settings are wrong writes no slots.
func (w *simWorld) justResumed(id string) bool {
	op := w.ops.known[id]
	if op != nil && !op.resumed.IsZero() {
		status := &w.rolloutOf(op.group).Status
		blocked := func(n topsv1.WaitingNote) bool { return n.Reason == string(rollout.ReasonBlocked) }
		if meta.IsStatusConditionFalse(status.Conditions, topsv1.RolloutAccepted) || slices.ContainsFunc(status.Waiting, blocked) {
			op.resumed = w.now
		}
	}
	return op != nil && !op.resumed.IsZero() && w.managedFor(op.resumed) < 2*time.Minute
}

// checkStray is S3: a node stays marked for an ended operation only briefly, until the late
// writer is noticed.
func (w *simWorld) checkStray(node *corev1.Node, u *topsv1.NodeUpgrade) {
	stray := slices.ContainsFunc(simMarks(node), func(id string) bool {
		return u == nil || !simLives(u.Status.Operation) || u.Status.Operation.ID != id && operation.CordonMark(u.Status.Operation) != id
	})
	if !stray {
		delete(w.ops.stray, node.Name)
		return
	}
	if _, known := w.ops.stray[node.Name]; !known || !w.calm {
		w.ops.stray[node.Name] = w.now
	}
	if w.now.Sub(w.ops.stray[node.Name]) > 10*time.Minute {
		w.violate("S3: node %s stays marked for %v", node.Name, simMarks(node))
	}
}

// disturbed reports whether, by what was seen, an operation may have a node out of service.
func (s simSeen) disturbed(node string) bool {
	u := s.upgrades[node]
	return u != nil && (simHasNode(u.Status.Operation) || u.Spec.Operation != nil && u.Spec.Operation.Granted && !simOver(u, u.Spec.Operation.ID))
}

// simOver reports whether an operation has ended on its node.
func simOver(u *topsv1.NodeUpgrade, id string) bool {
	if op := u.Status.Operation; op != nil && op.ID == id {
		return !simLives(op)
	}
	return slices.ContainsFunc(u.Status.History, func(r topsv1.OperationRecord) bool { return r.ID == id })
}

// checkLightPath checks that pods which an operation has to replace are not simply deleted, and
// that no pod is deleted where the pass saw an operation that has not ended.
func (w *simWorld) checkLightPath(pass *simPass, pod *corev1.Pod) {
	if w.ops == nil {
		return
	}
	node := daemonset.NodeName(pod)
	if ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, pod.Namespace, simOwner(pod).Name)); ds != nil && simHeavy(observed.Member{DaemonSet: ds}.Component()) {
		w.violate("S8: pod %s is deleted without an operation", pod.Name)
	}
	if u := pass.seen.upgrades[node]; u != nil && simHasNode(u.Status.Operation) && !u.Status.Operation.Phase.Final() {
		w.violate("S6: pod %s is deleted though the pass saw operation %s at work on %s", pod.Name, u.Status.Operation.ID, node)
	}
}

// guarded returns the node that no drain ever empties, "" for none.
func (w *simWorld) guarded() string {
	if w.ops == nil {
		return ""
	}
	return w.ops.guarded
}
