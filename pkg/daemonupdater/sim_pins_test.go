package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/simapi"
)

// With the gate, persons bring nodes back and free them again, and some policies do the former when a node fails.

// disturbPins lets a person bring a node back, or end that.
func (w *simWorld) disturbPins() {
	if w.gate == nil || w.orderly || w.gate.IntN(12) > 0 {
		return
	}
	pods := w.setPods()
	if len(pods) == 0 {
		return
	}
	pod := pods[w.gate.IntN(len(pods))]
	verb := "undo"
	if w.gate.IntN(4) == 0 {
		verb = "retry"
	}
	if verb == "undo" && w.gate.IntN(2) == 0 {
		w.asksBack(pod)
		return
	}
	w.override(daemonset.NodeName(pod), verb, simOwner(pod).Name)
}

// asksBack acts as the node agent: a person at a node asks for the revision before that of a pod.
func (w *simWorld) asksBack(pod *corev1.Pod) {
	node, ref := daemonset.NodeName(pod), simOwner(pod)
	key := simapi.Key{Kind: simUpgrades, Name: node}
	if w.api.Objects[key] == nil {
		return
	}
	w.say("node %s asks to leave %s", node, pod.Name)
	simapi.Edit(w.api, key, func(u *topsv1.NodeUpgrade) {
		id := string(pod.UID) + "-back"
		u.Status.Requests = slices.DeleteFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == id })
		u.Status.Requests = append(u.Status.Requests, topsv1.UpgradeRequest{
			ID: id, Revision: daemonset.RevisionHash(pod), RequestTime: w.host(node).clock(w), Rollback: true,
			DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: ref.Name, UID: ref.UID},
			Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	})
}

func (w *simWorld) override(node, verb, set string) {
	key := simapi.Key{Kind: simUpgrades, Name: node}
	// With an operation on the node, a retry is about one of its tasks, as kubectl gcu sees it.
	if w.api.Objects[key] == nil {
		return
	}
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, key)
	if verb == "retry" && observed.HasLiveOperation(u) {
		return
	}
	value := fmt.Sprintf("%s:%s_%s_replace:%d", verb, node, set, w.api.Counter)
	if verb == observed.VerbUndo {
		newest := w.targetOf(set)
		if newest == "" {
			return // kubectl gcu refuses that
		}
		value = observed.UndoValue(node+"_"+set+"_replace", newest, fmt.Sprint(w.api.Counter))
	}
	w.say("a person asks %s to %s %s", node, verb, set)
	if verb == "retry" {
		w.retried[node] = w.now
	}
	w.setOverride(node, value)
}

// freed reports whether a person asked for a node to be freed, and that may take effect now: it does so once, soon, or
// when what blocks the group is mended.
func (w *simWorld) freed(node string) bool {
	at, asked := w.retried[node]
	if !asked {
		return false
	}
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node})
	return w.now.Sub(at) < simSeenWithin || u == nil || len(observed.OpenPinRequests(u)) > 0 || w.restores > 0
}

// goesBackByOperation has a person bring one node, once all have arrived, back by an operation, and then free it: the
// other disturbances seldom let such an operation end. It reports whether nothing went wrong.
func (w *simWorld) goesBackByOperation() bool {
	if w.gate == nil || w.ops == nil || w.guarded()+w.stuck != "" {
		return true
	}
	set := simPick(w.rng, "driver", "toolkit")
	key := simapi.Named(simSets, simNamespace, set)
	node := w.hosts[w.gate.IntN(len(w.hosts))].name
	if pod := w.podOn(key, node); pod == nil || !w.wereGood(key) {
		return true
	}
	before := w.backByOperation
	w.verifiesDriver(w.groups[0])
	w.override(node, observed.VerbUndo, set)
	answered := func() bool {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node})
		if u == nil || observed.PinRequestOf(u) == nil {
			return true
		}
		id := observed.PinRequestOf(u).ID
		return slices.ContainsFunc(u.Status.Tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == id && t.State.Final() })
	}
	return w.until("L1: a node goes back by an operation, or that is refused", 3*time.Hour, func() bool { return w.backByOperation > before || answered() }) &&
		w.until("L1: the node has no operation", time.Hour, func() bool {
			u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node})
			return u == nil || !observed.HasLiveOperation(u)
		}) && w.isFreed(node, set)
}

// isFreed has a person free a node, until it is at the target again.
func (w *simWorld) isFreed(node, set string) bool {
	return w.until("L1: a node that was brought back is freed", 4*time.Hour, func() bool {
		if w.arrived() {
			return true
		}
		w.override(node, observed.VerbRetry, set)
		return false
	})
}

// checkFreed checks that a node whose retry is answered is no longer pinned. A person may have it pinned again in the same pass.
func (w *simWorld) checkFreed(pass *simPass, before, after client.Object) {
	now, ok := after.(*topsv1.NodeUpgrade)
	stored := w.rolloutOf(pass.group)
	if !ok || stored == nil || !w.answers(pass) {
		return
	}
	for i := range now.Status.Tasks {
		task := &now.Status.Tasks[i]
		answered := slices.ContainsFunc(before.(*topsv1.NodeUpgrade).Status.Tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == task.RequestID && t.State.Final() })
		pinned := slices.ContainsFunc(stored.Status.Pinned, func(p topsv1.NodePin) bool {
			_, set, _ := strings.Cut(p.DaemonSet, "/")
			return p.Node == now.Name && task.Name == now.Name+"_"+set+"_retry" && p.Reason != string(rollout.ReasonUndone)
		})
		if task.Reason == "Freed" && !answered && pinned {
			w.violate("%s is answered %s, and is still pinned", now.Name, task.Name)
		}
	}
}

// wereGood reports whether no revision that is kept of a DaemonSet is a bad one.
func (w *simWorld) wereGood(set simapi.Key) bool {
	ds := simapi.Get[*appsv1.DaemonSet](w.api, set)
	return ds != nil && !slices.ContainsFunc(w.revisionsOf(ds), func(r *appsv1.ControllerRevision) bool {
		template, err := daemonset.TemplateOf(r)
		return err != nil || !strings.HasPrefix(template.Spec.Containers[0].Image, "good")
	})
}

// targetOf returns the newest revision of a DaemonSet by the status of its rollout, "" if there is none.
func (w *simWorld) targetOf(set string) string {
	for _, g := range w.groups {
		if r := w.rolloutOf(g.id); r != nil {
			for _, t := range r.Status.Targets {
				if t.DaemonSet == simNamespace+"/"+set {
					return t.Hash
				}
			}
		}
	}
	return ""
}

// backAlone lets a policy bring nodes back that fail.
func (w *simWorld) backAlone(spec *topsv1.UpgradePolicySpec) {
	if w.gate != nil && spec.Failure != nil && spec.Failure.Action == topsv1.FailureHalt && w.gate.IntN(2) == 0 {
		spec.Failure.Action = topsv1.FailureRollbackNode
	}
}

// freePinned lets a person free nodes that are pinned.
func (w *simWorld) freePinned(r *topsv1.DaemonRollout) {
	if w.gate == nil || w.calmPeople {
		return
	}
	for i := range r.Status.Pinned {
		// Each try of a stuck node takes a slot until its deadline: with everybody else there, persons leave it alone.
		if node := r.Status.Pinned[i].Node; w.gate.IntN(10) == 0 && (node != w.stuck || !w.arrived()) {
			_, name, _ := strings.Cut(r.Status.Pinned[i].DaemonSet, "/")
			w.override(node, "retry", name)
		}
	}
}

// simPin returns the pin of a DaemonSet on a node in a ledger, nil if there is none. Another target than the one it
// is for ends it.
func simPin(r *topsv1.DaemonRollout, ds *appsv1.DaemonSet, node string) *topsv1.NodePin {
	key := ds.Namespace + "/" + ds.Name
	i := slices.IndexFunc(r.Status.Pinned, func(p topsv1.NodePin) bool { return p.Node == node && p.DaemonSet == key })
	if i < 0 {
		return nil
	}
	return &r.Status.Pinned[i]
}

// notBack drops the nodes that go back to what they are pinned to: what keeps others from starting does not keep them from
// that. One that is back starts for another component like any other.
func (p *simPass) notBack(r *topsv1.DaemonRollout, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return p.goesBack(r, name) })
}

func (p *simPass) goesBack(r *topsv1.DaemonRollout, node string) bool {
	u := p.seen.upgrades[node]
	kept := u != nil && u.Status.Operation != nil && u.Status.Operation.Held
	verifies := u != nil && u.Spec.Operation != nil && slices.ContainsFunc(u.Spec.Operation.Targets, func(t topsv1.OperationTarget) bool { return t.KeptFrom != "" })
	return isPinnedIn(r, node) && (kept || verifies || slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		pin, pod := simPin(r, ds, node), p.pod(ds, node)
		return pin != nil && (pod == nil || pod.DeletionTimestamp != nil || daemonset.RevisionHash(pod) != pin.Hash)
	}))
}

func isPinnedIn(r *topsv1.DaemonRollout, node string) bool {
	return slices.ContainsFunc(r.Status.Pinned, func(p topsv1.NodePin) bool { return p.Node == node })
}

// checkPin is S17: no pod of the revision that a node was pinned away from may run there. It reports whether the pod is
// the one that the node is pinned to.
func (w *simWorld) checkPin(stored *topsv1.DaemonRollout, ds *appsv1.DaemonSet, pod *corev1.Pod, how string) (isIt bool) {
	pin := simPin(stored, ds, daemonset.NodeName(pod))
	if pin == nil {
		return false
	}
	if daemonset.RevisionHash(pod) == pin.From {
		w.violate("S17: pod %s of revision %s may run on %s, which is kept at %s: %s", pod.Name, pin.From, pin.Node, pin.Hash, how)
	}
	return daemonset.RevisionHash(pod) == pin.Hash
}

// isBackDelete reports whether a pod is deleted because its node goes back, and checks that it is not the one that the
// node is pinned to.
func (w *simWorld) isBackDelete(pass *simPass, live *appsv1.DaemonSet, target string, pod *corev1.Pod) bool {
	stored := w.rolloutOf(pass.group)
	if stored == nil {
		return false
	}
	pin := simPin(stored, live, daemonset.NodeName(pod))
	if pin == nil || pin.From != target {
		return false
	}
	if daemonset.RevisionHash(pod) == pin.Hash && !pass.blind {
		w.violate("S17: pod %s is deleted though its node is pinned to its revision %s", pod.Name, pin.Hash)
	}
	return true
}
