package daemonupdater

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simForgotten is reached when an administrator deletes the NodeUpgrade of a node whose driver is not verified.
const simForgotten = "driver forgotten"

// newSimForgetting returns what draws, in a third of the seeds, when an administrator deletes a NodeUpgrade in the middle of an
// operation that has replaced the driver and not verified it, or that failed; nil in the others.
func newSimForgetting(seed uint64) *rand.Rand {
	if rng := rand.New(rand.NewPCG(seed, 16)); rng.IntN(3) == 0 {
		return rng
	}
	return nil
}

// forgetOperations has an administrator delete NodeUpgrades of nodes whose driver is not verified.
func (w *simWorld) forgetOperations() {
	if w.forgetting == nil || w.forgetting.IntN(8) != 0 {
		return
	}
	for _, h := range w.hosts {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
		if u == nil || simAtWork(u) == "" || !u.Status.Operation.Touched || !operation.HasUnprovenDriver(u.Status.Operation) || w.restarts(h.machine) {
			continue
		}
		w.say("admin: NodeUpgrade %s is deleted in the middle of operation %s, held=%v", h.name, u.Status.Operation.ID, u.Status.Operation.Held)
		w.forgotten++
		w.forget(h)
	}
}

// forget deletes the NodeUpgrade of a host.
func (w *simWorld) forget(h *simHost) {
	w.api.Remove(simapi.Key{Kind: simUpgrades, Name: h.name})
	h.machine.excused = true // a restart that its operation asked for may still come
	w.forgetOrder(h)
}

// tookDriver notes that an operation deleted the driver of its node.
func (op *simOp) tookDriver(component string) {
	if op != nil {
		op.driver = op.driver || component == upgradeplan.TargetDriver
	}
}

// checkForgotten is S10 for an operation that is done, and was made again under its id because somebody had deleted the NodeUpgrade: the
// driver that it replaced before is verified.
func (w *simWorld) checkForgotten(id string, u *topsv1.NodeUpgrade) {
	op, asked := w.ops.known[id], u.Spec.Operation
	if !op.driver || op.lost || asked == nil || asked.ID != id {
		return
	}
	verifies := slices.ContainsFunc(asked.Targets, func(t topsv1.OperationTarget) bool { return t.Component == upgradeplan.TargetDriver })
	if pod := w.podOn(simapi.Named(simSets, simNamespace, "driver"), u.Name); !verifies && pod != nil && !daemonset.HasLeft(pod) {
		w.violate("S10: operation %s is done on %s, and has not verified the driver that it replaced before its NodeUpgrade was deleted", id, u.Name)
	}
}

// checkForgiven checks that a node on which an operation failed counts as failed until another one is done, there is another target,
// or a person has the rollout go on.
func (w *simWorld) checkForgiven(pass *simPass, before, after *topsv1.DaemonRollout) {
	if w.ops == nil || before.Status.Revision != after.Status.Revision || before.Status.Resumed != after.Status.Resumed {
		return
	}
	for _, f := range before.Status.Failed {
		node := simapi.Get[*corev1.Node](w.api, simNodeKey(f.Node))
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: f.Node})
		slot := slices.ContainsFunc(after.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == f.Node })
		driver := slices.ContainsFunc(f.Targets, func(t topsv1.RevisionTarget) bool { return t.DaemonSet == simNamespace+"/driver" })
		if f.Reason != "OperationFailed" || !driver || node == nil || slot || u != nil && len(u.Status.History) > 0 || simFailed(after, f.Node) || w.freed(f.Node) || isPinnedIn(after, f.Node) || pass.blind {
			continue
		}
		w.violate("S2: %s no longer counts as failed, and no operation has shown since that it works", f.Node)
	}
}
