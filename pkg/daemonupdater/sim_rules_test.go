package daemonupdater

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// The rules of an UpgradePolicy, written again without the code under test: what a pass saw and
// what the statuses say determine what it may do.

// simPool is a pool and its cap; cap 0 is no cap.
type simPool struct {
	name string
	cap  int
}

// simScaled returns a number, or a percentage of total rounded up, at least 1.
func simScaled(value intstr.IntOrString, total int) int {
	if value.Type == intstr.Int {
		return max(1, value.IntValue())
	}
	percent := 0
	for _, digit := range strings.TrimSuffix(value.StrVal, "%") {
		percent = 10*percent + int(digit-'0')
	}
	return max(1, (percent*total+99)/100)
}

// policyWrong returns what is invalid in the policy that a pass saw, "" if nothing is.
func (p *simPass) policyWrong() string {
	if p.policyGone {
		return "does not exist"
	}
	if p.policy == nil {
		return ""
	}
	if w := p.policy.Spec.Window; w != nil && (w.TimeZone == "Local" || strings.HasPrefix(w.TimeZone, "Mars")) {
		return "names no time zone"
	}
	for _, wave := range p.policy.Spec.Waves {
		if wave.Selector != nil && slices.ContainsFunc(wave.Selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Operator == "Near" }) {
			return "has a selector that is none"
		}
	}
	return ""
}

// pod returns the pod that a pass saw of a member of its group on a node.
func (p *simPass) pod(ds *appsv1.DaemonSet, node string) *corev1.Pod {
	return p.seen.pods[simSpot{ds.UID, node}]
}

// fleet returns the nodes that the pass counts: those that run or should run the group, including
// offline ones.
func (p *simPass) fleet() []string {
	var names []string
	for name := range p.seen.nodes {
		if slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
			return p.belongs(ds, name)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// poolOf returns the pool of a node according to what the pass saw.
func (p *simPass) poolOf(node string) simPool {
	if p.policy == nil || p.policy.Spec.Pools == nil || p.seen.nodes[node] == nil {
		return simPool{}
	}
	key, total := p.policy.Spec.Pools.TopologyKey, 0
	value := p.seen.nodes[node].Labels[key]
	for _, name := range p.fleet() {
		if p.seen.nodes[name].Labels[key] == value {
			total++
		}
	}
	return simPool{key + "=" + value, simScaled(p.policy.Spec.Pools.MaxUnavailable, total)}
}

// healthy reports whether the pass saw the node Ready and every pod on it available.
func (p *simPass) healthy(node string) bool { return p.healthyFor(node, 0) }

// noteHealthy notes which nodes a pass saw Ready and healthy.
func (p *simPass) noteHealthy() {
	if p.seen.nodes == nil {
		p.seen = p.m.seen.clone()
	}
	if p.m.healthyAt == nil {
		p.m.healthyAt, p.m.readyAt = map[simLost]time.Time{}, map[string]simSighting{}
	}
	for name, node := range p.seen.nodes {
		if ready, since := daemonset.NodeReady(node); ready && since != p.m.readyAt[name].since {
			p.m.readyAt[name] = simSighting{since, p.at}
		}
	}
	for _, name := range p.fleet() {
		if p.healthy(name) && p.at.Sub(p.m.restored) >= rollout.DefaultDeadlines.Unavailable { // else its cache may be of before
			p.m.healthyAt[simLost{p.group, name}] = p.at
		}
	}
}

// wasHealthy reports whether a node that is not in service for an operation was seen healthy less than
// half a minute ago: until then it waits for its wave like a healthy one.
func (p *simPass) wasHealthy(node string) bool {
	at, ok := p.m.healthyAt[simLost{p.group, node}]
	return ok && !p.seen.disturbed(node) && p.at.Sub(at) < rollout.DefaultDeadlines.Unavailable && !p.m.jumped.After(at) && !p.unreadyForLong(node) // else it seems longer
}

// unreadyForLong reports whether a pod of a node was not Ready for so long that its cache, which showed it
// otherwise a moment ago, was behind.
func (p *simPass) unreadyForLong(node string) bool {
	return slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		pod := p.pod(ds, node)
		if pod == nil {
			return false
		}
		since := daemonset.NotReadySince(pod)
		return !since.IsZero() && p.at.Sub(since.Time) >= daemonset.MaxSkew+rollout.DefaultDeadlines.Unavailable
	})
}

// healthyFor reports whether a node is healthy, and its pods were available some time ago.
func (p *simPass) healthyFor(node string, ago time.Duration) bool {
	return !p.seen.disturbed(node) && p.availableFor(node, ago)
}

// availableFor reports whether a node is Ready, and its pods were available some time ago.
func (p *simPass) availableFor(node string, ago time.Duration) bool {
	return p.seen.ready(node) && !slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		pod := p.pod(ds, node)
		if !p.belongs(ds, node) || pod == nil {
			return p.belongs(ds, node)
		}
		available, _ := daemonset.Availability(pod, ds.Spec.MinReadySeconds, p.at.Add(p.w.skewOf(pod)-ago))
		return !available
	})
}

// atTargets reports whether the pass saw every pod of the node at the target of a status.
func (p *simPass) atTargets(status *topsv1.DaemonRolloutStatus, node string) bool {
	return !slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		pod := p.pod(ds, node)
		return p.belongs(ds, node) && (pod == nil || pod.DeletionTimestamp != nil || !slices.ContainsFunc(status.Targets, func(t topsv1.RevisionTarget) bool {
			return t.DaemonSet == ds.Namespace+"/"+ds.Name && t.Hash == daemonset.RevisionHash(pod)
		}))
	})
}

// belongs reports whether a pod of a DaemonSet is, or is to be, on a node.
func (p *simPass) belongs(ds *appsv1.DaemonSet, node string) bool {
	if p.seen.nodes[node] == nil {
		return true
	}
	placement := daemonset.ShouldRun(ds, p.seen.nodes[node])
	return p.pod(ds, node) == nil && placement.Create || p.pod(ds, node) != nil && placement.Keep
}

// passedOver reports whether waves do not wait for a node that was not touched.
func (p *simPass) passedOver(node string) bool {
	u := p.seen.upgrades[node]
	kept := u != nil && u.Status.Operation != nil && u.Status.Operation.Held && u.Status.Operation.Rollout != p.group.RolloutKey("gcu-system").String()
	return kept || !p.seen.ready(node) || simForeign(p.seen.nodes[node], corev1.TaintEffectNoSchedule)
}

// waves returns the index of the wave of every node: a wave takes nodes by its selector, or by
// its size in the stable order, from those that no earlier wave took.
func (p *simPass) waves() map[string]int {
	free := p.fleet()
	slices.SortFunc(free, func(a, b string) int { return cmp.Or(cmp.Compare(simNameHash(a), simNameHash(b)), cmp.Compare(a, b)) })
	total, waves := len(free), map[string]int{}
	for i, wave := range p.policy.Spec.Waves {
		var rest []string
		left := total
		if wave.Size != nil {
			left = simScaled(*wave.Size, total)
		}
		for _, name := range free {
			if left > 0 && (wave.Selector == nil || labels.SelectorFromSet(wave.Selector.MatchLabels).Matches(labels.Set(p.seen.nodes[name].Labels))) {
				waves[name] = i
				left--
			} else {
				rest = append(rest, name)
			}
		}
		free = rest
	}
	for _, name := range free {
		waves[name] = len(p.policy.Spec.Waves)
	}
	return waves
}

func simNameHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// checkStarts checks the starts of one write against the policy that the pass saw.
func (w *simWorld) checkStarts(pass *simPass, after *topsv1.DaemonRollout, started []string) {
	if wrong := pass.policyWrong(); wrong != "" {
		w.violate("S12: %v start though the policy %s", started, wrong)
		return
	}
	w.checkPlanStarts(pass, after, started)
	if pass.policy == nil {
		return
	}
	for _, name := range started {
		w.checkPoolSlots(pass, after, name)
	}
	settings, _ := daemonset.SettingsOf(pass.sets[0])
	if settings.Strategy == daemonset.OTA {
		return // requests under OTA are subject to the budgets only
	}
	waves := pass.waves()
	for _, name := range started {
		if !pass.seen.ready(name) {
			continue // already reported
		}
		w.checkRest(pass, name)
		w.checkWindow(pass, after, name)
		if pass.planName() == "" && (pass.healthy(name) || pass.wasHealthy(name)) {
			w.checkWave(pass, after, name, waves[name])
		}
		if pass.healthy(name) {
			w.checkRole(pass, after, name, waves)
		}
	}
}

// checkQueuedPolicy checks the policy when a queued node is started as well; its order was
// decided when it was queued.
func (w *simWorld) checkQueuedPolicy(pass *simPass, stored *topsv1.DaemonRollout, name string) {
	switch wrong := pass.policyWrong(); {
	case wrong != "":
		w.violate("S12: queued node %s starts though the policy %s", name, wrong)
	case pass.policy != nil && pass.seen.ready(name):
		w.checkRest(pass, name)
		w.checkWindow(pass, stored, name)
	}
}

// checkPoolSlots checks that the pool of a starting node has no more slots than its cap.
func (w *simWorld) checkPoolSlots(pass *simPass, after *topsv1.DaemonRollout, name string) {
	pool, slots := pass.poolOf(name), 0
	for _, s := range after.Status.InFlight {
		if pass.poolOf(s.Node) == pool {
			slots++
		}
	}
	if pool.cap > 0 && slots > pool.cap {
		w.violate("pool: %s starts, and there are %d slots in pool %s, cap %d", name, slots, pool.name, pool.cap)
	}
}

// checkPool checks that the nodes of a pool that we took down are within the cap in force when
// they started.
func (w *simWorld) checkPool(g *simGroup, a *simAccount, node string) {
	pool, most, down := a.pools[node], 0, 0
	if pool.cap == 0 {
		return
	}
	for name := range a.down {
		if other := a.pools[name]; other.name == pool.name {
			down++
			most = max(most, other.cap)
		}
	}
	if down > most {
		w.violate("pool: %d nodes of pool %s are down by us in %s, cap %d: %v", down, pool.name, g.id, most, slices.Sorted(maps.Keys(a.down)))
	}
}

// checkRest checks returnedSeconds.
func (w *simWorld) checkRest(pass *simPass, name string) {
	ago := pass.apparent(pass.readyFor(name))
	if least := pass.policy.Spec.ReturnedSeconds; least != nil && ago < time.Duration(*least)*time.Second {
		w.violate("returned: %s starts %s after it returned, %d s are asked for", name, ago, *least)
	}
}

// apparent returns how long something may seem to have lasted by the clock of the manager of a pass, at least as long as it did. A manager
// does not know that its clock jumped ahead. A clock that is set back starts the time anew.
func (p *simPass) apparent(lasted time.Duration) time.Duration {
	longest := lasted + max(0, p.leapt(lasted))
	for at, by := range p.m.leaps {
		if since := p.at.Sub(at); by < 0 && since < lasted {
			longest = max(longest, since+p.leapt(since))
		}
	}
	return longest
}

// leapt returns by how much the clock of the manager of a pass jumped within the last time before it decided.
func (p *simPass) leapt(within time.Duration) (sum time.Duration) {
	for at, by := range p.m.leaps {
		if p.at.Sub(at) < within {
			sum += by
		}
	}
	return sum
}

// checkWindow checks that a node starts only while the window is open in its time zone, for at
// least the time that a node usually takes.
func (w *simWorld) checkWindow(pass *simPass, after *topsv1.DaemonRollout, name string) {
	window := pass.policy.Spec.Window
	if window == nil {
		return
	}
	zone := window.TimeZone
	if value, ok := pass.seen.nodes[name].Labels[window.TimeZoneNodeLabel]; ok {
		zone = strings.ReplaceAll(value, ".", "/")
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" {
		w.violate("window: %s starts, its time zone is %s", name, zone)
		return
	}
	usual := max(0, time.Duration(after.Status.UsualSeconds-1)*time.Second) // it was rounded
	usual = min(usual, time.Duration(window.DurationMinutes)*45*time.Second)
	for _, later := range []time.Duration{0, usual} {
		at := pass.clock.Add(later)
		if !simOpen(window, at.In(location)) && !simOpen(window, pass.begun.Add(later).In(location)) { // it may have slept since it decided
			w.violate("window: %s starts at %s, and at %s the window is shut", name, pass.clock.In(location), at.In(location))
			return
		}
	}
}

// simOpen reports whether the window is open: it opened at most its duration ago.
func simOpen(window *topsv1.MaintenanceWindow, at time.Time) bool {
	for ago := range time.Duration(window.DurationMinutes) {
		minute := at.Truncate(time.Minute).Add(-ago * time.Minute)
		if minute.Format("15:04") == window.Start &&
			(len(window.Days) == 0 || slices.Contains(window.Days, topsv1.Weekday(minute.Format("Mon")))) {
			return true
		}
	}
	return false
}

// checkWave checks that a healthy node starts after the waves before its own were complete and
// soaked, and the waves up to its own approved.
func (w *simWorld) checkWave(pass *simPass, after *topsv1.DaemonRollout, name string, of int) {
	for i, wave := range pass.policy.Spec.Waves[:min(of+1, len(pass.policy.Spec.Waves))] {
		if wave.Approval == topsv1.ApprovalManual && !simApproved(after, after.Status.Revision+"/"+wave.Name) {
			w.violate("wave: %s of wave %d starts, and wave %s is not approved", name, of, wave.Name)
		}
		if i == of {
			return
		}
		since, soaked := w.account(pass.group).soaked(pass, wave.Name, wave.SoakSeconds)
		if completed := simCompleted(after, wave.Name); completed == nil || !soaked {
			w.violate("wave: %s of wave %d starts, and wave %s is complete since %v, for %s, and soaks %d s", name, of, wave.Name, completed, since, wave.SoakSeconds)
		}
	}
}

func simCompleted(r *topsv1.DaemonRollout, wave string) *metav1.Time {
	for i := range r.Status.Waves {
		if r.Status.Waves[i].Name == wave {
			return r.Status.Waves[i].CompletedTime
		}
	}
	return nil
}

// checkStaysPassed checks that a wave or batch that was complete with nodes is so as long as revision, plan and limit are
// the same, also while its nodes are gone.
func (w *simWorld) checkStaysPassed(before, after *topsv1.DaemonRollout) {
	if before.Status.Revision != after.Status.Revision || before.Status.LimitedTo != after.Status.LimitedTo {
		return
	}
	for _, wave := range after.Status.Waves {
		if simCompleted(before, wave.Name) != nil && !simEmpty(before, wave.Name) && (wave.CompletedTime == nil || wave.Total == 0) {
			w.violate("wave: %s was complete with nodes, and is no more", wave.Name)
		}
	}
}

// simEmpty reports whether a wave had no nodes when it became complete.
func simEmpty(r *topsv1.DaemonRollout, wave string) bool {
	return slices.ContainsFunc(r.Status.Waves, func(w topsv1.WaveStatus) bool { return w.Name == wave && w.Total == 0 })
}

// simApprovals returns the entries of the annotation of a rollout.
func simApprovals(r *topsv1.DaemonRollout) []string {
	return strings.Split(r.Annotations[topsv1.AnnotationApprovedWaves], ",")
}

// checkRole checks that a healthy control plane node does not start before a healthy worker of
// its wave if the policy puts it last, nor a worker before it if first. Pools and time zones of
// nodes may reverse that.
func (w *simWorld) checkRole(pass *simPass, after *topsv1.DaemonRollout, name string, waves map[string]int) {
	spec := pass.policy.Spec
	master := simControlPlane(pass.seen.nodes[name])
	if w.ops != nil {
		return // nodes that are prepared earlier, or deferred, reverse the order
	}
	late := (spec.ControlPlane == topsv1.ControlPlaneLast && master) || (spec.ControlPlane == topsv1.ControlPlaneFirst && !master)
	if !late || spec.Pools != nil || (spec.Window != nil && spec.Window.TimeZoneNodeLabel != "") {
		return
	}
	for other, wave := range waves {
		if wave != waves[name] || simControlPlane(pass.seen.nodes[other]) == master || !pass.healthyFor(other, 2*daemonset.MaxSkew) || pass.atTargets(&after.Status, other) {
			continue
		}
		mustWait := simForeign(pass.seen.nodes[other], corev1.TaintEffectNoSchedule) || spec.ReturnedSeconds != nil && pass.seemsReadyFor(other) < time.Duration(*spec.ReturnedSeconds)*time.Second
		taken := slices.ContainsFunc(after.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == other }) ||
			slices.ContainsFunc(after.Status.Failed, func(f topsv1.NodeNote) bool { return f.Node == other })
		if !mustWait && !taken && !isPinnedIn(after, other) {
			w.violate("order: %s starts before %s, control plane nodes are %s", name, other, spec.ControlPlane)
		}
	}
}

// simControlPlaneLabels mark control plane nodes.
var simControlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

func simControlPlane(node *corev1.Node) bool {
	return slices.ContainsFunc(simControlPlaneLabels, func(label string) bool { _, ok := node.Labels[label]; return ok })
}

// checkCompleted checks that a wave becomes complete only if all its reachable nodes are updated,
// the waves before it are complete, and a node has proved that the version works.
func (w *simWorld) checkCompleted(pass *simPass, before, after *topsv1.DaemonRollout) {
	if pass.policy == nil || pass.planName() != "" || pass.policyWrong() != "" || len(after.Status.Waves) != len(pass.policy.Spec.Waves)+1 {
		return
	}
	if after.Status.Strategy == "RestartsOnly" {
		return // its waves say nothing of revisions
	}
	waves, proven := pass.waves(), false
	for i, wave := range after.Status.Waves {
		empty, open := true, ""
		for name, of := range waves {
			if of != i {
				continue
			}
			empty = false
			available := pass.availableFor(name, 0) || pass.at.Sub(pass.m.jumped) < simMinReady && pass.availableFor(name, -pass.m.leap)
			touched := slices.ContainsFunc(after.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == name }) ||
				slices.ContainsFunc(after.Status.Failed, func(f topsv1.NodeNote) bool { return f.Node == name })
			updated := !touched && pass.atTargets(&after.Status, name) && (!pass.seen.ready(name) || available)
			proven = proven || updated
			if !updated && (!pass.passedOver(name) && !isPinnedIn(after, name) || touched) {
				open = name
			}
		}
		known := before.Status.Revision == after.Status.Revision && simCompleted(before, wave.Name) != nil && (wave.Total == 0 || !simEmpty(before, wave.Name))
		if wave.CompletedTime == nil || known {
			continue
		}
		if i > 0 && after.Status.Waves[i-1].CompletedTime == nil {
			w.violate("wave: %s is complete before %s", wave.Name, after.Status.Waves[i-1].Name)
		}
		if open != "" || (!proven && !empty) {
			w.violate("wave: %s is complete, open is %q, proven %v", wave.Name, open, proven)
		}
	}
}
