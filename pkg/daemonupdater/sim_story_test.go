package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/simapi"
)

// chaos disturbs everything for a while; then the faults stop.
func (w *simWorld) chaos() {
	w.knobs = w.randomKnobs()
	w.populate(3 + w.rng.IntN(7))
	w.say("knobs %+v", w.knobs)
	w.knowGood()
	w.push(w.groups[0], w.chance(w.knobs.bad))
	for range 60 + w.rng.IntN(80) {
		w.step()
		if w.failed() {
			return
		}
	}
	w.settle()
	w.finale()
}

// golden is a small rollout without faults, with a stale cache in some seeds. It is the same in
// every run until its manager is killed.
func (w *simWorld) golden() {
	w.orderly = true
	w.populate(4)
	w.knobs.stale = w.rng.IntN(2) * 4
	w.knowGood()
	w.push(w.groups[0], false)
	for range 5 {
		w.step()
	}
	w.settle()
	w.finale()
}

// randomKnobs enables each disturbance or not, so that seeds differ in kind.
func (w *simWorld) randomKnobs() simKnobs {
	some := func(n int) int { return w.rng.IntN(2) * n }
	return simKnobs{
		faults: some(4 + w.rng.IntN(20)), crash: some(10 + w.rng.IntN(40)), pause: some(5 + w.rng.IntN(40)), late: w.chance(2),
		stale: some(1 + w.rng.IntN(40)), admin: 5 + w.rng.IntN(40), bad: 1 + w.rng.IntN(5), nodes: some(3 + w.rng.IntN(20)), ota: w.chance(2),
	}
}

// settle stops the faults: nodes come back, edits are completed and valid, and a good version is
// pushed. In some seeds the pods of one node never go away.
func (w *simWorld) settle() {
	w.calm = true
	w.say("faults stop")
	w.doPlanned()
	if !w.orderly && w.chance(2) {
		w.stuck = w.hosts[w.rng.IntN(len(w.hosts))].name
	}
	if w.ops != nil && w.stuck == "" && !w.orderly && w.chance(3) {
		w.ops.guarded = w.hosts[w.rng.IntN(len(w.hosts))].name
	}
	for _, h := range w.hosts {
		if w.api.Objects[simNodeKey(h.name)] == nil {
			w.addNode(h)
		}
		h.unwell = time.Time{}
		w.untaint(h.name) // a restored backup may have brought a taint back
		if !h.up {
			w.power(h, true)
		}
	}
	for _, pod := range w.setPods() {
		w.setFinalizer(simapi.KeyOf(pod), daemonset.NodeName(pod) == w.stuck)
		w.removeLeft(pod)
	}
	for _, g := range w.groups {
		w.annotate(g, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
		w.annotate(g, topsv1.AnnotationMaxUnavailable, w.lastLimit())
		w.annotate(g, topsv1.AnnotationPaused, "")
		w.annotate(g, topsv1.AnnotationUpgradePolicy, "")
		w.dropPlan(g)
		w.updateType(g, appsv1.OnDeleteDaemonSetStrategyType)
		w.push(g, false)
	}
	w.settlePolicies()
	w.settlePlans()
	w.settleMachines()
}

// removeLeft removes an orphan of a gr that is gone, which a restored backup may have brought back: no controller adopts or collects it,
// and the drain of its node says so until a person removes it.
func (w *simWorld) removeLeft(pod *corev1.Pod) {
	if w.restores > 0 && w.groupOfSet(simOwner(pod).Name) == nil && simOwner(pod).UID == "" && pod.DeletionTimestamp == nil {
		w.say("admin: %s, which no controller has, is deleted", simapi.KeyOf(pod))
		_, _ = w.api.Delete(simapi.KeyOf(pod), nil) // it exists
	}
}

// lastLimit leaves a slot beside the one that a stuck node takes.
func (w *simWorld) lastLimit() string {
	if w.stuck+w.guarded() != "" {
		return "2"
	}
	return []string{"1", "2", "30%"}[w.rng.IntN(3)]
}

// finale plays until every reachable node is at the target (L1, L3), the system is quiet, and
// nothing is left after opting out (L4).
func (w *simWorld) finale() {
	noSlots := func(r *topsv1.DaemonRollout) bool {
		starting := func(n topsv1.WaitingNote) bool { return n.Reason == string(rollout.ReasonNodesOnProbation) }
		held := int32(0)
		if w.stuck != "" && w.ops != nil {
			held = 1 // the restart of its runtime, which is left to the administrator, may wait for good
		}
		return len(r.Status.InFlight)+len(r.Status.Queued) == 0 && r.Status.HeldNodes <= held && !slices.ContainsFunc(r.Status.Waiting, starting)
	}
	complete := func(r *topsv1.DaemonRollout) bool {
		return w.stuck != "" || w.guarded() != "" || meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutComplete)
	}
	soon := time.Minute
	if w.ops != nil {
		soon = 30 * time.Minute // a runtime that was restarted by hand may have let another operation start
	}
	if !w.until("L1: every reachable node gets to the target", 4*time.Hour, w.arrived) || !w.checkRestarted("at last") ||
		!w.until("L2: no slot is taken", time.Hour, func() bool { return w.everyRollout(noSlots) }) || !w.goesBackByOperation() ||
		!w.until("S10: complete is said", soon, func() bool { return w.everyRollout(complete) }) || !w.plansAreDone() {
		return
	}
	if w.ops == nil || w.guarded()+w.stuck == "" {
		w.beQuiet()
	}
	w.restartTheRest()
	for _, g := range w.groups {
		w.annotate(g, topsv1.AnnotationUpdateStrategy, "")
	}
	// An operation that is withdrawn waits until its agent cannot restart the runtime any more.
	if w.until("L4: nothing is left after opting out", 20*time.Minute, w.nothingLeft) && w.restartsUnderOTA() && w.restartsWithoutStrategy() {
		w.beQuiet()
	}
}

// beQuiet checks that nothing is written while nothing happens, including edits.
func (w *simWorld) beQuiet() {
	w.policies, w.calmPeople = nil, true
	for range 20 {
		w.step()
	}
	// The node whose pod does not terminate may have started after the others had arrived.
	idle := func() bool {
		return !slices.ContainsFunc(w.groups, func(g *simGroup) bool {
			r := w.rolloutOf(g.id)
			return r != nil && len(r.Status.InFlight) > 0
		})
	}
	if w.ops == nil && !w.until("L2: no slot is taken in the quiet", time.Hour, idle) {
		return
	}
	known := w.now.Add(rollout.DefaultDeadlines.Progress + time.Minute) // by then it is recorded that the version is good
	if !w.until("quiet: what the version does is known", time.Hour, func() bool { return w.now.After(known) }) {
		return
	}
	before := w.writes
	for range 10 {
		w.step()
	}
	w.calmPeople = false
	if w.writes != before && !w.failed() {
		w.violate("quiet: %d writes though nothing happens", w.writes-before)
	}
}

// until plays until a condition holds.
func (w *simWorld) until(what string, within time.Duration, holds func() bool) bool {
	end := w.now.Add(within)
	w.patient = within >= time.Hour
	defer func() { w.patient = false }()
	for !holds() {
		if w.failed() {
			return false
		}
		if w.now.After(end) {
			w.violate("%s: not within %s: %s", what, within, w.describe())
			return false
		}
		w.step()
	}
	return !w.failed()
}

func (w *simWorld) arrived() bool {
	for _, g := range w.groups {
		for _, h := range w.hosts {
			if h.name != w.stuck && h.name != w.guarded() && !w.atTarget(g, h.name) {
				return false
			}
		}
	}
	return true
}

func (w *simWorld) atTarget(g *simGroup, node string) bool {
	for _, key := range g.sets {
		ds := simapi.Get[*appsv1.DaemonSet](w.api, key)
		pod := w.podOn(key, node)
		if pod == nil || pod.Spec.Containers[0].Image != ds.Spec.Template.Spec.Containers[0].Image {
			return false
		}
	}
	return w.nodeAvailable(g.sets, node)
}

func (w *simWorld) everyRollout(holds func(*topsv1.DaemonRollout) bool) bool {
	for _, g := range w.groups {
		if r := w.rolloutOf(g.id); r == nil || !holds(r) {
			return false
		}
	}
	return true
}

func (w *simWorld) nothingLeft() bool {
	for _, g := range w.groups {
		if w.rolloutOf(g.id) != nil {
			return false
		}
	}
	for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		if u.Spec.Operation != nil || simLives(u.Status.Operation) {
			return false
		}
	}
	for _, node := range simapi.All[*corev1.Node](w.api, simNodes) {
		if len(simMarks(node)) > 0 || node.Spec.Unschedulable {
			return false
		}
	}
	for _, pod := range w.setPods() {
		if pod.DeletionTimestamp == nil && daemonset.NeedUpgrade(pod) != nil {
			return false
		}
	}
	return true
}

// describe returns the true state in a few lines.
func (w *simWorld) describe() string {
	var b strings.Builder
	if node := w.stuck + w.guarded(); node != "" {
		fmt.Fprintf(&b, "\nexcept %s", node)
	}
	for _, g := range w.groups {
		fmt.Fprintf(&b, "\n%s:", g.id)
		for _, h := range w.hosts {
			if !w.atTarget(g, h.name) {
				fmt.Fprintf(&b, " %s", h.name)
			}
		}
		if r := w.rolloutOf(g.id); r != nil {
			if c := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutProgressing); c != nil {
				fmt.Fprintf(&b, " not at the target; %s", c.Message)
			}
			for _, f := range r.Status.Failed {
				fmt.Fprintf(&b, "; %s %s of %v: %s", f.Node, f.Reason, f.Targets, f.Message)
			}
		}
	}
	for _, node := range simapi.All[*corev1.Node](w.api, simNodes) {
		if marks := simMarks(node); len(marks) > 0 || node.Spec.Unschedulable {
			fmt.Fprintf(&b, "\n%s is unschedulable=%v, marked for %v", node.Name, node.Spec.Unschedulable, marks)
		}
	}
	for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		if op := u.Status.Operation; u.Spec.Operation != nil || simLives(op) {
			fmt.Fprintf(&b, "\n%s has operation %+v: %+v", u.Name, u.Spec.Operation, op)
		}
	}
	for _, pod := range w.setPods() {
		if c := daemonset.NeedUpgrade(pod); c != nil && pod.DeletionTimestamp == nil {
			fmt.Fprintf(&b, "\n%s has condition %s %s", pod.Name, c.Type, c.Reason)
		}
	}
	return b.String()
}
