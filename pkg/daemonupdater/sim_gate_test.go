package daemonupdater

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simGate is the admission policy gcu-operator-gate, in the seeds of the gate. In these, pods die by
// themselves all the time.
type simGate struct {
	gate *rand.Rand // nil in a seed without the policy
	// ran is the revision of the last pod of a DaemonSet that was bound to a node; of two at once, both.
	ran map[simRan][]string
	// outside are nodes that had no place for a DaemonSet since its last pod there, or had none as the manager saw it that settled, or do
	// not keep that pod of a former Node: its revision is settled without them, and they join like new ones.
	outside map[simRan]bool
	// worked is the revision of the last pod of a DaemonSet that was ready on a node.
	worked map[simRan]string
	// takenBack are those that a restored backup took back: a manager that saw them ready remembers them until it sees
	// another one. One that did not see them, and never will, remembers what it saw last.
	takenBack map[simRan][]string
	// restored are the pods that managers created, by the first name of a pod at their place.
	restored map[simapi.Key][]simapi.Key
	// vague: what ran on a node is not always known.
	vague bool
	// held and opened count what came of pods at the gate.
	held, opened, back int
	// backAlones counts the pods that came back because their nodes were pinned.
	backAlones int
	// backByOperation counts the operations that brought a node back alone.
	backByOperation int
	// retried are nodes of which a person said that they get the target after all, and when: that forgives their failures.
	retried map[string]time.Time
	// calmPeople: no person frees a pinned node for now.
	calmPeople bool
}

// simRan is a DaemonSet on a Node object: another one of that name had nothing.
type simRan struct{ set, node types.UID }

// gated returns a story with the gate.
func gated(story func(*simWorld)) func(*simWorld) {
	return func(w *simWorld) {
		w.simGate = simGate{gate: rand.New(rand.NewPCG(w.seed, 11)), retried: map[string]time.Time{}, ran: map[simRan][]string{}, outside: map[simRan]bool{}, worked: map[simRan]string{}, takenBack: map[simRan][]string{}, restored: map[simapi.Key][]simapi.Key{}}
		story(w)
	}
}

func (w *simWorld) gateMode() gating.Mode {
	if w.gate == nil {
		return gating.Off
	}
	return gating.On
}

// knowGood lets the managers know a good revision first: after that, pods that die while no manager runs
// get that one.
func (w *simWorld) knowGood() {
	if w.gate == nil {
		return
	}
	w.calm = true
	known := func(r *topsv1.DaemonRollout) bool { return r.Status.LastKnownGood != nil }
	for i := 0; i < 300 && !w.failed() && !w.everyRollout(known); i++ { // a policy may keep it from being known
		w.step()
	}
	w.calm = false
}

// adopted notes that the pods of a DaemonSet are those of another one now.
func (w *simWorld) adopted(from, to types.UID) {
	for _, node := range simapi.All[*corev1.Node](w.api, simNodes) {
		was, is := simRan{from, node.UID}, simRan{to, node.UID}
		if had, ok := w.ran[was]; ok {
			w.ran[is] = had
		}
		if hash, ok := w.worked[was]; ok {
			w.worked[is] = hash
		}
	}
}

// rewindGate has nodes have what they had when a backup was made, and the pods that are there again, besides what
// they had since: a manager may restore either, or what it saw ready before.
func (w *simWorld) rewindGate(ran map[simRan][]string) {
	for spot, had := range ran {
		w.ran[spot] = append(slices.Clone(w.ran[spot]), had...)
	}
	for _, pod := range w.setPods() {
		node, owner := simapi.Get[*corev1.Node](w.api, simNodeKey(pod.Spec.NodeName)), simOwner(pod)
		if w.gate != nil && node != nil && owner != nil {
			spot := simRan{owner.UID, node.UID} // the pod was being replaced without a gate when the backup was made
			w.ran[spot] = append(slices.Clone(w.ran[spot]), daemonset.RevisionHash(pod))
		}
	}
	for spot, hash := range w.worked {
		w.takenBack[spot] = append(w.takenBack[spot], hash)
	}
}

// disturbGated lets pods die by themselves.
func (w *simWorld) disturbGated() {
	if w.gate == nil || w.gate.IntN(4) > 0 {
		return
	}
	pods := w.setPods()
	if len(pods) == 0 {
		return
	}
	pod := pods[w.gate.IntN(len(pods))]
	if w.gate.IntN(3) == 0 {
		w.evictPod(pod)
		return
	}
	w.say("pod %s dies", pod.Name)
	_, _ = w.api.Delete(simapi.KeyOf(pod), nil) // it exists
}

// admit is the policy: config/admission/gate.yaml in Go. Its parameters may be old, and then it gates more.
func (w *simWorld) admit(pod *corev1.Pod) *corev1.Pod {
	g := w.groupOfSet(simOwner(pod).Name)
	if w.gate == nil || g == nil {
		return pod
	}
	stored := w.rolloutOf(g.id)
	key, hash, node := pod.Namespace+"/"+simOwner(pod).Name, daemonset.RevisionHash(pod), daemonset.NodeName(pod)
	back := stored != nil && slices.ContainsFunc(stored.Status.Pinned, func(p topsv1.NodePin) bool { return p.Node == node && p.DaemonSet == key && p.Hash != hash })
	if stored == nil || !slices.ContainsFunc(stored.Status.Settled, func(t topsv1.RevisionTarget) bool { return t.DaemonSet == key && (t.Hash != hash || back) }) {
		w.checkGate(pod, "the policy lets it pass", nil)
		return pod
	}
	if report.TargetIn(stored.Status.Targets, key) == hash && !back && simNamed(stored, node, key) && w.gate.IntN(4) > 0 {
		return pod
	}
	w.say("pod %s waits at the gate", pod.Name)
	w.held++
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: topsv1.GateAwaitingUpgrade})
	return pod
}

// simNamed reports whether a slot of a node names a DaemonSet: that a queued node was started may be stored later.
func simNamed(r *topsv1.DaemonRollout, node, set string) bool {
	return slices.ContainsFunc(simSlots(r), func(s topsv1.NodeSlot) bool { return s.Node == node && slices.Contains(s.DaemonSets, set) })
}

// getsTarget reports whether a node was granted the target of a DaemonSet: its slot names that, or is for all of them, which it is
// not under OTA, or what may be OTA, where the person at the node has to request it, or an operation has to replace it along.
func (w *simWorld) getsTarget(stored *topsv1.DaemonRollout, node string, ds *appsv1.DaemonSet, pass *simPass) bool {
	if !slices.ContainsFunc(simSlots(stored), func(s topsv1.NodeSlot) bool { return s.Node == node }) {
		return false
	}
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node})
	return !mayBeOTA(ds, pass) || simNamed(stored, node, ds.Namespace+"/"+ds.Name) || u != nil &&
		(slices.ContainsFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool { return r.DaemonSet.UID == ds.UID }) ||
			u.Spec.Operation != nil && slices.ContainsFunc(u.Spec.Operation.Targets, func(t topsv1.OperationTarget) bool {
				return slices.ContainsFunc(t.All(), func(of topsv1.DaemonSetRevision) bool { return of.DaemonSet.UID == ds.UID })
			}))
}

// mayBeOTA reports whether the strategy of a DaemonSet's group is OTA or not known, as the pass listed its DaemonSets: they may disagree in
// the middle of an edit. Nil is the policy.
func mayBeOTA(ds *appsv1.DaemonSet, pass *simPass) bool {
	if pass == nil {
		settings, err := daemonset.SettingsOf(ds)
		return err == nil && settings.Strategy == daemonset.OTA
	}
	first, _ := daemonset.SettingsOf(pass.sets[0])
	return first.Strategy != daemonset.AdvancedRollingUpdate || slices.ContainsFunc(pass.sets, func(ds *appsv1.DaemonSet) bool {
		settings, err := daemonset.SettingsOf(ds)
		return err != nil || settings != first
	})
}

// runs notes the revision of a pod that is bound.
func (w *simWorld) runs(pod *corev1.Pod) {
	if w.gate == nil {
		return
	}
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(daemonset.NodeName(pod)))
	if node == nil {
		return
	}
	key := simRan{simOwner(pod).UID, node.UID}
	if !slices.ContainsFunc(w.podsOn(simapi.Named(simSets, pod.Namespace, simOwner(pod).Name), node.Name), func(o *corev1.Pod) bool {
		return o.UID != pod.UID && o.Spec.NodeName != ""
	}) {
		w.ran[key] = nil
	}
	w.ran[key] = append(w.ran[key], daemonset.RevisionHash(pod))
	delete(w.outside, key)
}

// leaves notes the nodes that a DaemonSet is not for now, and those without its pod where none is created because of a taint.
func (w *simWorld) leaves(ds *appsv1.DaemonSet) {
	for _, node := range simapi.All[*corev1.Node](w.api, simNodes) {
		if w.gate != nil && simOutside(node, ds, len(w.podsOn(simapi.KeyOf(ds), node.Name)) > 0) {
			w.outside[simRan{ds.UID, node.UID}] = true
		}
	}
}

// simOutside reports whether a DaemonSet has no place on a node, with or without a pod of it there.
func simOutside(node *corev1.Node, ds *appsv1.DaemonSet, pod bool) bool {
	return !simKeeps(node, ds) || simForeign(node, corev1.TaintEffectNoSchedule) && !pod
}

// settles notes the nodes without which a pass settles revisions. Its list of Nodes may be older than that of pods.
func (w *simWorld) settles(pass *simPass, before, after *topsv1.DaemonRollout) {
	if w.gate == nil {
		return
	}
	if pass.settled == nil {
		pass.settled = slices.Clone(before.Status.Settled)
	}
	for _, ds := range pass.sets {
		key := ds.Namespace + "/" + ds.Name
		hash := report.TargetIn(after.Status.Settled, key)
		if hash == "" || hash == report.TargetIn(before.Status.Settled, key) {
			continue
		}
		for name, node := range pass.seen.nodes {
			if simOutside(node, ds, pass.seen.pods[simSpot{ds.UID, name}] != nil) {
				w.outside[simRan{ds.UID, node.UID}] = true
			}
		}
	}
}

// stays notes the pods that are still on a node when it is registered again. One that terminates is as good as gone.
func (w *simWorld) stays(node string) {
	for _, terminates := range []bool{true, false} { // what runs counts in the end
		for _, pod := range w.setPods() {
			if w.gate != nil && pod.Spec.NodeName == node && (pod.DeletionTimestamp != nil) == terminates {
				w.runs(pod)
				w.outside[simRan{simOwner(pod).UID, simapi.Get[*corev1.Node](w.api, simNodeKey(node)).UID}] = terminates
			}
		}
	}
}

// works notes the revision of a pod that becomes ready.
func (w *simWorld) works(pod *corev1.Pod, status corev1.ConditionStatus) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(daemonset.NodeName(pod)))
	if owner := simOwner(pod); w.gate != nil && status == corev1.ConditionTrue && node != nil && owner != nil {
		w.worked[simRan{owner.UID, node.UID}] = daemonset.RevisionHash(pod)
	}
}

// answers reports whether what a pass does about a pod at the gate has to follow S15. That of a manager that was
// suspended while another one took over does not: the DaemonSet controller deletes one of two pods.
func (w *simWorld) answers(pass *simPass) bool {
	return !pass.blind && !pass.overtaken && pass.m == w.leader
}

// sawNoStrategy reports whether the DaemonSet of a pod had no strategy when the pass read it, or read it again, and so no gate. A person may
// have set one while the manager was suspended.
func (p *simPass) sawNoStrategy(pod *corev1.Pod) bool {
	uid := simOwner(pod).UID
	live, again := p.live[uid]
	return slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		if again {
			ds = live.ds
		}
		settings, err := daemonset.SettingsOf(ds)
		return ds.UID == uid && err == nil && settings.Strategy == daemonset.NoStrategy
	})
}

// overtake notes that a manager stored a ledger while another one was in a pass over the group, suspended or killed later.
func (w *simWorld) overtake(pass *simPass) {
	for _, m := range w.managers {
		if m != pass.m && m.pass != nil && m.pass.group == pass.group {
			m.pass.overtaken = true
		}
	}
}

// releaseByUs removes the gate of a pod, and nothing else.
func (w *simWorld) releaseByUs(pass *simPass, object client.Object, kind types.PatchType, data []byte) error {
	before := simapi.Get[*corev1.Pod](w.api, simapi.KeyOf(object))
	if err := w.api.Patch(object, kind, data, simapi.Main, ""); err != nil {
		return err
	}
	after := simapi.Get[*corev1.Pod](w.api, simapi.KeyOf(object))
	if !daemonset.AwaitsUpgrade(before) || daemonset.AwaitsUpgrade(after) || len(after.Spec.SchedulingGates) != len(before.Spec.SchedulingGates)-1 {
		w.violate("S15: pod %s is patched, and not only released", before.Name)
	}
	w.opened++
	if w.answers(pass) && !pass.sawNoStrategy(after) {
		w.checkGate(after, "a manager releases it", pass)
	}
	return nil
}

// restoreByUs creates a pod in place of one at the gate.
func (w *simWorld) restoreByUs(pass *simPass, pod *corev1.Pod) error {
	if err := w.api.Create(pod); err != nil {
		return err
	}
	w.back++
	owner, node := simOwner(pod), pod.Spec.NodeName
	set := simapi.Named(simSets, pod.Namespace, owner.Name)
	first := simPodNames(set, node)[0]
	w.restored[first] = append(w.restored[first], simapi.KeyOf(pod))
	if w.answers(pass) && !pass.sawNoStrategy(pod) {
		w.checkGate(pod, "a manager creates it", pass)
	}
	w.runs(pod)
	return nil
}

// checkGate is S15: a pod that may run now has the revision that its node had or was last ready with, or that the manager last saw ready
// there, the node has a slot, or it has the last known good revision. A manager may have been suspended since: what its pass could see
// may allow it too. Nil is the policy.
func (w *simWorld) checkGate(pod *corev1.Pod, how string, pass *simPass) {
	g := w.groupOfSet(simOwner(pod).Name)
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(daemonset.NodeName(pod)))
	ds := w.setOf(pod)
	if g == nil || node == nil || ds == nil || ds.UID != simOwner(pod).UID || ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		return
	}
	stored := w.rolloutOf(g.id)
	settings, err := daemonset.SettingsOf(ds)
	key, hash, spot := ds.Namespace+"/"+ds.Name, daemonset.RevisionHash(pod), simSpot{ds.UID, node.Name}
	sawReady := pass != nil && w.worked[simRan{ds.UID, node.UID}] != "" && pass.m.sawReady[spot] == hash // no manager knows of a pod that it never saw ready
	had := func(what func(hashes []string) bool) bool {
		return what(w.ran[simRan{ds.UID, node.UID}]) || pass != nil && what(pass.ran[simRan{ds.UID, node.UID}])
	}
	this := func(hashes []string) bool { return slices.Contains(hashes, hash) }
	none := func(hashes []string) bool { return len(hashes) == 0 }
	if stored != nil && (err != nil || settings.Strategy != daemonset.NoStrategy) && slices.ContainsFunc(stored.Status.Settled, func(t topsv1.RevisionTarget) bool { return t.DaemonSet == key }) && w.checkPin(stored, ds, pod, how) {
		w.backAlones++
		return
	}
	if stored == nil || err == nil && settings.Strategy == daemonset.NoStrategy || had(this) || hash == w.worked[simRan{ds.UID, node.UID}] ||
		slices.Contains(w.takenBack[simRan{ds.UID, node.UID}], hash) || sawReady || w.getsTarget(stored, node.Name, ds, pass) ||
		!slices.ContainsFunc(stored.Status.Settled, func(t topsv1.RevisionTarget) bool { return t.DaemonSet == key }) {
		return
	}
	good := ""
	if stored.Status.LastKnownGood != nil {
		good = report.TargetIn(stored.Status.LastKnownGood.Targets, key)
	}
	kept := func(hash string) bool {
		of := func(r *appsv1.ControllerRevision) bool { return daemonset.RevisionHash(r) == hash }
		return slices.ContainsFunc(w.revisionsOf(ds), of) && (pass == nil || pass.live[ds.UID].ds == nil || slices.ContainsFunc(pass.live[ds.UID].revisions, of))
	}
	settled := hash == report.TargetIn(stored.Status.Settled, key) || pass != nil && hash == report.TargetIn(pass.settled, key)
	if good == "" || had(none) && (w.vague || settled) || settled && w.outside[simRan{ds.UID, node.UID}] {
		return // what a node had is not known to a new manager
	}
	if pass != nil && pass.m.sawBound[simRan{ds.UID, node.UID}] == hash && !pass.m.sawWork[simRan{ds.UID, node.UID}] {
		return // nor is what ran there since then, if its list was stale, or a restored backup took the pod back
	}
	if hash != good && kept(good) {
		w.violate("S15: pod %s of revision %s may run on %s, which had %q and was not granted it (good is %q): %s", pod.Name, hash, node.Name, w.ran[simRan{ds.UID, node.UID}], good, how)
	}
}

// A manager that has lost the lease brings back the revision that it last saw ready on a node. The leader does not see that one ready,
// and knows that the node got the new one.
func TestAPodLeavesTheGateThatItsManagerLastSawReadyThoughAnotherOneBroughtAnEarlierOneBack(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		gated(func(*simWorld) {})(s.simWorld)
		s.leader = s.b
		s.worksUntil(s.a, "a good revision is known", time.Hour, func() bool { return s.rolloutOf(s.g.id).Status.LastKnownGood != nil })
		s.gets(0, "good-1")
		s.b.sees()
		s.b.passes(s.g.id)
		node := s.inFlight(1)
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		s.worksUntil(s.b, "the node is updated", time.Hour, func() bool { return len(s.rolloutOf(s.g.id).Status.InFlight) == 0 })
		dies := func() {
			s.api.Remove(simapi.KeyOf(s.podOf(0, node)))
			s.waits("a pod waits at the gate", func() bool { p := s.podOf(0, node); return p != nil && daemonset.AwaitsUpgrade(p) })
		}
		dies()
		s.a.sees()
		s.a.passes(s.g.id)
		s.waits("the node has the earlier revision", func() bool { return s.replaced(node, "good-0") == 1 })
		dies()
		released := s.opened
		s.worksUntil(s.b, "the pod leaves the gate", time.Minute, func() bool { return s.opened > released })
	})
}
