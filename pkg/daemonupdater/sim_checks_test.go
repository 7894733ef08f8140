package daemonupdater

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simAccount is what the checks record about a group besides its objects.
type simAccount struct {
	// limit in force when a node was given its slot, by node.
	limit map[string]int
	// pool and its cap in force then, by node.
	pools map[string]simPool
	// started is when a node was given its slot. lost is the time that deadlines have lost by changes of the clock,
	// and skew how far ahead that was at the last decision.
	started    map[string]simStarted
	lost, skew time.Duration
	// completed is when a wave, or a part of a plan, was complete.
	completed map[string]simCompletion
	// down: nodes that were available until a manager deleted one of their pods, until the
	// deleted pods are replaced and available, or the node counts as failed.
	down map[string]*simDown
}

// simDown is a Node object and the DaemonSets whose pods there were deleted by managers.
type simDown struct {
	uid  types.UID
	sets []simapi.Key
}

func (w *simWorld) account(g observed.Group) *simAccount {
	if w.accounts[g] == nil {
		w.accounts[g] = &simAccount{limit: map[string]int{}, pools: map[string]simPool{}, down: map[string]*simDown{}, started: map[string]simStarted{}, completed: map[string]simCompletion{}}
	}
	return w.accounts[g]
}

// nodeAvailable reports whether the node is Ready and the pods of these DaemonSets on it are
// available.
func (w *simWorld) nodeAvailable(sets []simapi.Key, name string) bool {
	return w.nodeAvailableBy(sets, name, 0)
}

// nodeAvailableBy is nodeAvailable by a clock that is ahead.
func (w *simWorld) nodeAvailableBy(sets []simapi.Key, name string, ahead time.Duration) bool {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(name))
	if node == nil || !simNodeReady(node) {
		return false
	}
	for _, key := range sets {
		ds := simapi.Get[*appsv1.DaemonSet](w.api, key)
		if ds == nil || !slices.ContainsFunc(w.podsOn(key, name), func(pod *corev1.Pod) bool {
			ok, _ := daemonset.Availability(pod, ds.Spec.MinReadySeconds, w.now.Add(w.skewOf(pod)+ahead))
			return (ok || w.runsNothing(pod)) && w.isOwned(pod) // else the garbage collector deletes it soon
		}) {
			return false
		}
	}
	return true
}

// kept returns those of the DaemonSets that still run, or should run, on a node.
func (w *simWorld) kept(sets []simapi.Key, node *corev1.Node) []simapi.Key {
	return slices.DeleteFunc(slices.Clone(sets), func(key simapi.Key) bool {
		ds := simapi.Get[*appsv1.DaemonSet](w.api, key)
		if ds == nil || !simKeeps(node, ds) {
			return true
		}
		pod := w.podOn(key, node.Name) // not one of a former DaemonSet of that name, which the garbage collector deletes
		return (pod == nil || !w.isOwned(pod)) && simForeign(node, corev1.TaintEffectNoSchedule)
	})
}

// rolloutOf returns the rollout of a group as it is stored.
func (w *simWorld) rolloutOf(g observed.Group) *topsv1.DaemonRollout {
	key := g.RolloutKey("gcu-system")
	rollout, _ := w.stored(simapi.Named(simRollouts, key.Namespace, key.Name)).(*topsv1.DaemonRollout)
	return rollout
}

// deleteByUs is DELETE by a manager; the checks see the true state just before it.
func (w *simWorld) deleteByUs(pass *simPass, key simapi.Key, options *client.DeleteOptions) error {
	pod, _ := w.api.Objects[key].(*corev1.Pod)
	var was bool
	var g *simGroup
	if pod != nil {
		if g = w.groupOfSet(simOwner(pod).Name); g != nil {
			was = w.nodeAvailable(g.sets, daemonset.NodeName(pod)) && !w.takenOut(g.id, daemonset.NodeName(pod))
		}
	}
	effective, err := w.api.Delete(key, simPreconditions(options))
	if key.Kind == simRollouts && err == nil {
		delete(w.accounts, pass.group)
	}
	if pod == nil || err != nil || !effective {
		return err
	}
	if g == nil && w.setOf(pod) == nil {
		return nil // its gr was deleted since the manager looked, and its pods go as well
	}
	if g == nil || g.id != pass.group {
		w.violate("S9: pod %s of nobody's group is deleted", pod.Name)
		return nil
	}
	w.checkDelete(pass, pod)
	w.checkLightPath(pass, pod)
	owner := simapi.Named(simSets, pod.Namespace, simOwner(pod).Name)
	if d := w.account(g.id).down[daemonset.NodeName(pod)]; d != nil {
		d.sets = append(d.sets, owner)
	}
	if was {
		w.checkBudget(g, daemonset.NodeName(pod), owner)
	}
	return nil
}

// checkDelete checks one deletion against what the pass saw and the true state.
func (w *simWorld) checkDelete(pass *simPass, pod *corev1.Pod) {
	node := daemonset.NodeName(pod)
	live, ok := pass.live[simOwner(pod).UID]
	if !ok && w.fitsByChance(pass, pod) {
		return
	}
	if !ok {
		w.violate("S9: pod %s is deleted though its DaemonSet was not read again", pod.Name)
		return
	}
	settings, err := daemonset.SettingsOf(live.ds)
	noCards := pass.seen.noCards(pod, live.ds) || err == nil && settings.Strategy != daemonset.NoStrategy && w.isBackDelete(pass, live.ds, live.target, pod)
	switch {
	case err != nil:
		w.violate("S12: pod %s is deleted under wrong settings: %v", pod.Name, err)
	case settings.Strategy == daemonset.NoStrategy && !noCards:
		w.violate("S9: pod %s of a DaemonSet without a strategy is deleted", pod.Name)
	case settings.Strategy == daemonset.OTA && !w.runsNothing(pod) && !noCards && !w.agreed(pass, pod, live.target):
		w.violate("OTA: pod %s is deleted though nobody asked for %s", pod.Name, live.target)
	case !pass.seen.ready(node):
		w.violate("S7: pod %s is deleted on node %s, which the pass saw offline", pod.Name, node)
	case simForeign(pass.seen.nodes[node], corev1.TaintEffectNoSchedule):
		w.violate("successor: pod %s is deleted on node %s, where none is created after it", pod.Name, node)
	case daemonset.RevisionHash(pod) == live.target && !noCards && !pass.blind && !pass.overtaken:
		// A blind pass may replace it once more, and so may one whose node was to go back until another manager freed it.
		w.violate("target: pod %s is deleted though it is at the target %s", pod.Name, live.target)
	}
	w.checkPlanned(pass, pod, noCards)
	if wrong := pass.policyWrong(); wrong != "" {
		w.violate("S12: pod %s is deleted though the policy %s", pod.Name, wrong)
	}
	for _, ds := range pass.sets {
		if _, err := daemonset.SettingsOf(ds); err != nil {
			w.violate("S12: pod %s is deleted while %s of its group has wrong settings: %v", pod.Name, ds.Name, err)
		}
	}
	stored := w.rolloutOf(pass.group)
	w.mayBeDown(pass, node)
	names := func(s topsv1.NodeSlot) bool { return s.PodUID == pod.UID }
	switch {
	case pass.blind && w.wereLost[simLost{pass.group, node}]:
	case !w.isOwned(pod): // its DaemonSet was created again since: the garbage collector deletes it
	case stored != nil && daemonset.AwaitsUpgrade(pod) && slices.ContainsFunc(simSlots(stored), func(s topsv1.NodeSlot) bool { return s.Node == node }):
		// Nothing runs in it, and the slot of its node names what was restored beside it by now.
	case stored == nil || !slices.ContainsFunc(simSlots(stored), names):
		w.violate("ledger: pod %s is deleted and no slot names it", pod.Name)
	case slices.ContainsFunc(stored.Status.Queued, names):
		w.checkQueued(pass, stored, node)
	}
}

// mayBeDown records the limit under which a pass takes a node out of service: it may have been raised
// since the node was given its slot.
func (w *simWorld) mayBeDown(pass *simPass, node string) {
	a := w.account(pass.group)
	a.limit[node] = max(a.limit[node], simLimit(pass))
}

// checkBudget is S1: a node that was available is not any more, because of us.
func (w *simWorld) checkBudget(g *simGroup, node string, sets ...simapi.Key) {
	w.settleAccounts()
	a := w.account(g.id)
	if w.lost[simLost{g.id, node}] {
		return // it was in flight before the backup was restored
	}
	if n := simapi.Get[*corev1.Node](w.api, simNodeKey(node)); n != nil {
		a.down[node] = &simDown{n.UID, sets}
	}
	limit := 0
	for name := range a.down {
		limit = max(limit, a.limit[name])
	}
	if len(a.down) > limit {
		w.violate("S1: %d nodes of %s are down by us, limit %d: %v", len(a.down), g.id, limit, slices.Sorted(maps.Keys(a.down)))
	}
	w.checkPool(g, a, node)
}

// settleNode settles the accounts when an object of a node has changed.
func (w *simWorld) settleNode(object client.Object) {
	if object.GetNamespace() == simUsers {
		return
	}
	switch o := object.(type) {
	case *corev1.Pod, *corev1.Node, *topsv1.DaemonRollout:
		w.settleAccounts()
	case *topsv1.NodeUpgrade:
		if w.ops != nil {
			w.checkUpgrade(o)
		}
	}
}

// settleAccounts drops nodes that are available again, gone, counted as failed, or kept by another group.
func (w *simWorld) settleAccounts() {
	for _, g := range w.groups {
		a, stored := w.account(g.id), w.rolloutOf(g.id)
		for name, d := range a.down {
			node := simapi.Get[*corev1.Node](w.api, simNodeKey(name))
			failed := stored != nil && slices.ContainsFunc(stored.Status.Failed, func(n topsv1.NodeNote) bool { return n.Node == name })
			if node == nil || node.UID != d.uid || failed || w.isKeptByOthers(g, name) {
				delete(a.down, name)
				continue
			}
			kept := w.kept(d.sets, node)
			if len(kept) == 0 || w.nodeAvailableBy(kept, name, w.leapt()) && !w.takenOut(g.id, name) {
				delete(a.down, name)
			}
		}
	}
}

// isKeptByOthers reports whether an ended operation of another group keeps a node out of service: nobody's
// budget counts it but that group's.
func (w *simWorld) isKeptByOthers(g *simGroup, node string) bool {
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node})
	return w.ops != nil && u != nil && u.Status.Operation != nil && u.Status.Operation.Held && w.opGroup(u.Status.Operation.ID) != g
}

// checkLedger checks one write of a ledger against the one before.
func (w *simWorld) checkLedger(pass *simPass, before, after *topsv1.DaemonRollout) {
	w.checkRejected(before, after)
	w.checkGood(pass, before, after)
	var started []string
	restarted := 0
	limit := simLimit(pass)
	a := w.account(pass.group)
	a.noteClock(pass, before)
	a.noteCompleted(pass, before, after)
	for _, s := range simSlots(after) {
		if !slices.ContainsFunc(simSlots(before), func(o topsv1.NodeSlot) bool { return o.Node == s.Node && o.Since.Equal(&s.Since) }) {
			a.started[s.Node] = simStarted{pass.at.Sub(fixture.Epoch), a.lost}
		}
		if simHasSlot(before, &s) {
			continue
		}
		if w.isGranted(s.Operation) || w.storedAgain(before, &s) {
			w.say("%s has a slot of %s again, for operation %q", s.Node, pass.group, s.Operation)
			a.limit[s.Node], a.pools[s.Node] = limit, pass.poolOf(s.Node)
			delete(w.lost, simLost{pass.group, s.Node})
			continue
		}
		started = append(started, s.Node)
		delete(w.lost, simLost{pass.group, s.Node})
		a.limit[s.Node], a.pools[s.Node] = limit, pass.poolOf(s.Node)
		if before.Status.Revision == after.Status.Revision && before.Status.Resumed == after.Status.Resumed && simFailed(before, s.Node) && !simFailed(after, s.Node) && !w.freed(s.Node) && !pass.sawRecovered(before, s.Node) {
			restarted++
		}
		if !pass.seen.ready(s.Node) {
			w.violate("S7: node %s is given a slot though the pass saw it offline", s.Node)
		}
		w.say("%s starts in %s, limit %d", s.Node, pass.group, limit)
	}
	w.checkCompleted(pass, before, after)
	w.checkStaysPassed(before, after)
	w.checkBatches(pass, before, after)
	w.checkFailures(pass, before, after)
	w.checkForgiven(pass, before, after)
	if n := len(after.Status.InFlight); len(started) > 0 && n > limit {
		w.violate("S1: %d slots of %s, limit %d", n, pass.group, limit)
	}
	if ds := pass.sets[0]; len(started) > 0 && ds.Annotations[topsv1.AnnotationPaused] == "true" {
		w.violate("paused: %v of %s start", started, pass.group)
	}
	if started = pass.notBack(after, started); len(started) == 0 {
		return
	}
	w.checkStarts(pass, after, started)
	touched := int(after.Status.Touched)
	for _, s := range after.Status.InFlight { // those that are queued are not touched yet
		if slices.Contains(started, s.Node) {
			touched--
		}
	}
	if failed := len(after.Status.Failed) + restarted; failed >= simThreshold(pass, touched) {
		w.violate("S2: %v of %s start after %d of %d failed", started, pass.group, failed, touched)
	}
	if meta.IsStatusConditionTrue(after.Status.Conditions, topsv1.RolloutHalted) {
		w.violate("S2: %v of %s start in a halted rollout", started, pass.group)
	}
}

// sawRecovered reports whether a node that failed, but not in an operation, had been available for as long as that takes when the pass
// saw it, with the revisions at which it failed.
func (p *simPass) sawRecovered(r *topsv1.DaemonRollout, node string) bool {
	i := slices.IndexFunc(r.Status.Failed, func(f topsv1.NodeNote) bool { return f.Node == node })
	return r.Status.Failed[i].Reason != "OperationFailed" && p.availableFor(node, rollout.DefaultDeadlines.Unavailable) && !slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		failed := report.TargetIn(r.Status.Failed[i].Targets, ds.Namespace+"/"+ds.Name)
		pod := p.pod(ds, node)
		return failed != "" && pod != nil && daemonset.RevisionHash(pod) != failed
	})
}

// simFailed reports whether a ledger counts a node as failed.
func simFailed(r *topsv1.DaemonRollout, node string) bool {
	return slices.ContainsFunc(r.Status.Failed, func(f topsv1.NodeNote) bool { return f.Node == node })
}

// simHasSlot reports whether a ledger has the slot of a node.
func simHasSlot(r *topsv1.DaemonRollout, slot *topsv1.NodeSlot) bool {
	return slices.ContainsFunc(simSlots(r), func(s topsv1.NodeSlot) bool { return s.Node == slot.Node && (s.UID == slot.UID || s.UID == "") })
}

// simSlots returns all slots of a ledger.
func simSlots(r *topsv1.DaemonRollout) []topsv1.NodeSlot {
	return slices.Concat(r.Status.InFlight, r.Status.Queued)
}

// checkQueued checks that only the budget had kept a queued node from starting when it is
// started.
func (w *simWorld) checkQueued(pass *simPass, stored *topsv1.DaemonRollout, node string) {
	if ds := pass.sets[0]; ds.Annotations[topsv1.AnnotationPaused] == "true" {
		w.violate("paused: queued node %s of %s starts", node, pass.group)
	}
	if pass.goesBack(stored, node) {
		return
	}
	if meta.IsStatusConditionTrue(stored.Status.Conditions, topsv1.RolloutHalted) {
		w.violate("S2: queued node %s of %s starts in a halted rollout", node, pass.group)
	}
	w.checkQueuedPolicy(pass, stored, node)
}

// sayLedger logs which slots were given back. A slot that names another operation keeps its node in flight,
// and gives the former operation back.
func (w *simWorld) sayLedger(pass *simPass, before, after *topsv1.DaemonRollout) {
	for _, s := range simSlots(before) {
		if !slices.ContainsFunc(simSlots(after), func(n topsv1.NodeSlot) bool { return n.Node == s.Node && n.UID == s.UID && n.Operation == s.Operation }) {
			w.excuseBlind(pass, s.Node)
		}
		if !slices.ContainsFunc(simSlots(after), func(n topsv1.NodeSlot) bool { return n.Node == s.Node && n.UID == s.UID }) {
			w.say("%s gives its slot of %s back", s.Node, after.Name)
			w.excuseDropped(pass, &s)
		}
		w.excuseRelapse(pass, s.Node)
	}
}

// excuseRelapse removes a node with a slot from the account if the pass saw every new pod there Ready for long enough: it gives its slot
// back, or keeps it for a later version, and is not counted as down. A pod may have lost that within minReadySeconds, too
// late for the cache to show: no controller can know, and without minReadySeconds the node would
// already be settled. So may a pod that somebody else deletes. Nor does a manager know that its clock has just jumped over minReadySeconds.
func (w *simWorld) excuseRelapse(pass *simPass, node string) {
	a := w.account(pass.group)
	healthy := pass.healthy(node) || pass.at.Sub(pass.m.jumped) < simMinReady && pass.healthyFor(node, -pass.m.leap)
	if d := a.down[node]; d != nil && healthy && !slices.ContainsFunc(d.sets, func(set simapi.Key) bool {
		ds := simapi.Get[*appsv1.DaemonSet](w.api, set)
		if ds == nil || pass.pod(ds, node) == nil {
			return true
		}
		seen, pod := pass.pod(ds, node), w.podOn(set, node)
		return !w.takenAway[seen.UID] && (pod == nil || pod.DeletionTimestamp != nil || seen.UID != pod.UID)
	}) {
		w.say("%s is excused: its new pods were available", node)
		delete(a.down, node)
	}
}

// excuseDropped removes a node from the account if the pass saw it offline and its operation
// ended longer ago than a lost node keeps its slot. It is like a node that failed because it was
// lost, except that the version is not to blame.
func (w *simWorld) excuseDropped(pass *simPass, slot *topsv1.NodeSlot) {
	upgrade := pass.seen.upgrades[slot.Node]
	if slot.Operation == "" || upgrade == nil || pass.seen.ready(slot.Node) {
		return
	}
	lost := rollout.DefaultDeadlines.Lost
	if pass.policy != nil && pass.policy.Spec.LostDeadlineSeconds != nil {
		lost = time.Duration(*pass.policy.Spec.LostDeadlineSeconds) * time.Second
	}
	for _, record := range upgrade.Status.History {
		if record.ID == slot.Operation && !pass.clock.Before(record.EndTime.Add(lost)) {
			w.say("%s is excused: it is offline since long", slot.Node)
			delete(w.account(pass.group).down, slot.Node)
		}
	}
}

// simLimit returns the limit by the settings and nodes that a pass saw, 0 if they are invalid.
func simLimit(pass *simPass) int {
	if len(pass.sets) == 0 {
		return 0
	}
	settings, err := daemonset.SettingsOf(pass.sets[0])
	if err != nil || settings.Strategy == daemonset.NoStrategy && !slices.ContainsFunc(pass.sets, observed.Restarts) {
		return 0
	}
	if settings.MaxUnavailable == (intstr.IntOrString{}) && pass.policy != nil && pass.policy.Spec.MaxUnavailable != nil {
		return simScaled(*pass.policy.Spec.MaxUnavailable, len(pass.seen.nodes))
	}
	return settings.MaxUnavailableOf(len(pass.seen.nodes))
}

// simThreshold returns how many failed nodes halt a rollout by the policy that a pass saw.
func simThreshold(pass *simPass, touched int) int {
	if p := pass.policy; p != nil && p.Spec.Failure != nil && p.Spec.Failure.Threshold != nil {
		return simScaled(*p.Spec.Failure.Threshold, touched)
	}
	return max(2, (touched+9)/10)
}

// checkPatch checks that a patch of a pod changes our conditions only, and that a task is done
// only if its pod was replaced.
func (w *simWorld) checkPatch(before, after client.Object) {
	switch now := after.(type) {
	case *corev1.Pod:
		was := before.(*corev1.Pod)
		if len(others(was)) != len(others(now)) || simPodReady(was) != simPodReady(now) {
			w.violate("pod %s lost a condition of others", now.Name)
		}
	case *topsv1.NodeUpgrade:
		if len(now.Status.Requests) != len(before.(*topsv1.NodeUpgrade).Status.Requests) {
			w.violate("NodeUpgrade %s lost a request", now.Name)
		}
		for _, r := range now.Status.Requests {
			done := slices.ContainsFunc(now.Status.Tasks, func(task topsv1.UpgradeTask) bool { return task.RequestID == r.ID && task.Reason == "Replaced" })
			pod := simapi.Get[*corev1.Pod](w.api, simapi.Named(simPods, r.Pod.Namespace, r.Pod.Name))
			if done && pod != nil && pod.UID == r.Pod.UID && !daemonset.HasLeft(pod) {
				w.violate("S10: request %s of %s is done, and its pod is still there", r.ID, now.Name)
			}
		}
	}
}

func others(pod *corev1.Pod) []corev1.PodConditionType {
	var list []corev1.PodConditionType
	for _, c := range pod.Status.Conditions {
		if !slices.Contains([]corev1.PodConditionType{topsv1.PodNeedUpgrade, topsv1.PodImageReady, podreplace.Fenced}, c.Type) {
			list = append(list, c.Type)
		}
	}
	return list
}

// checkAll checks the true state against the invariants that hold after every step.
func (w *simWorld) checkAll() {
	w.settleAccounts()
	w.checkNodes()
	if !w.calm {
		return
	}
	for _, g := range w.groups {
		stored := w.rolloutOf(g.id)
		if stored == nil {
			continue
		}
		for _, s := range stored.Status.InFlight {
			if since := w.startOfSlot(g.id, &s); s.Operation == "" && w.managedFor(since) > 45*time.Minute {
				w.violate("L2: node %s of %s keeps its slot since %s", s.Node, g.id, since.Sub(fixture.Epoch))
			}
		}
	}
}
