package daemonupdater

import (
	"slices"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simSeenWithin is when every manager has seen a change of the strategy.
const simSeenWithin = time.Hour

// restartsUnderOTA sets runtimes back under OTA: idle nodes are restarted though nobody asks, the
// others once they ask.
func (w *simWorld) restartsUnderOTA() bool {
	g := w.toolkitGroup()
	if w.ops == nil || g == nil || w.guarded()+w.stuck != "" {
		return true
	}
	clear(w.ops.asked)
	w.annotate(g, topsv1.AnnotationUpdateStrategy, "OTA")
	if !w.until("every manager has seen the strategy", 2*simSeenWithin, func() bool { return w.now.Sub(g.ota) > simSeenWithin }) {
		return false
	}
	w.setRuntimesBack()
	inUse := func() []*simHost {
		return slices.DeleteFunc(w.needRestart(), func(h *simHost) bool { return w.left(h, false) == 0 && !h.machine.byHand })
	}
	begin := w.now
	idleRestarted := func() bool { return len(inUse()) == len(w.needRestart()) && w.now.Sub(begin) > simSeenWithin/2 }
	if !w.until("idle nodes are restarted unasked", 8*time.Hour, idleRestarted) {
		return false
	}
	return w.until("the others are restarted when they ask", 8*time.Hour, func() bool {
		for _, h := range w.needRestart() {
			if pod := w.podOn(simapi.Named(simSets, simNamespace, upgradeplan.TargetToolkit), h.name); pod != nil {
				w.askFor(pod)
			}
		}
		return len(w.needRestart()) == 0
	}) && w.optOut(g)
}

// optOut removes the strategy of a group.
func (w *simWorld) optOut(g *simGroup) bool {
	w.annotate(g, topsv1.AnnotationUpdateStrategy, "")
	return w.until("L4: nothing is left after OTA", 2*time.Hour, w.nothingLeft)
}

// checkWithoutRequest checks that an operation that nobody asked for touches the node only while it is idle.
func (w *simWorld) checkWithoutRequest(h *simHost, op *topsv1.NodeOperation) {
	if left := w.left(h, false); op != nil && op.OnlyIdle && left > 0 && !h.machine.excused {
		w.violate("OTA: operation %s, for which nobody asked, touches %s with %d pods that use cards", op.ID, h.name, left)
	}
}

// checkCreatedWithoutRequest checks an operation that is made under OTA: of a node that has never asked it is for an idle node,
// and about no pod that waits for a request. The strategy must be old enough for every manager to have seen it.
func (w *simWorld) checkCreatedWithoutRequest(u *topsv1.NodeUpgrade, op *topsv1.NodeOperation, g *simGroup) {
	if g == nil || g.ota.IsZero() || w.now.Sub(g.ota) < simSeenWithin || w.ops.asked[u.Name] {
		return
	}
	h := w.host(u.Name)
	if !op.OnlyIdle || replacesUnasked(op, h != nil && h.machine.forgotten) {
		w.violate("OTA: operation %s of %s is made though nobody asked, for idle nodes only: %t; targets %v", op.ID, u.Name, op.OnlyIdle, op.Targets)
	}
}

// replacesUnasked reports whether an operation replaces a pod that waits for a request: one that is outdated, or one that an operation did
// not verify, except the toolkit, for which the runtime is restarted, and what only the ledger shows since the history was forgotten.
func replacesUnasked(op *topsv1.NodeOperation, forgotten bool) bool {
	return slices.ContainsFunc(op.Targets, func(t topsv1.OperationTarget) bool {
		return t.Previous != "" && (t.Previous != t.Revision || t.Component != upgradeplan.TargetToolkit && !forgotten)
	})
}

func TestTheModelOfWhatNobodyAskedFor(t *testing.T) {
	target := func(component, previous string) topsv1.OperationTarget {
		return topsv1.OperationTarget{Component: component, Revision: "new", Previous: previous}
	}
	for _, tt := range []struct {
		name      string
		target    topsv1.OperationTarget
		forgotten bool
		want      bool
	}{
		{"a plugin along with others", target("devicePlugin", ""), false, false},
		{"an unverified toolkit", target("toolkit", "new"), false, false},
		{"an outdated toolkit", target("toolkit", "old"), true, true},
		{"an unverified driver", target("driver", "new"), false, true},
		{"an unverified driver that is forgotten", target("driver", "new"), true, false},
		{"an outdated driver", target("driver", "old"), true, true},
	} {
		op := &topsv1.NodeOperation{Targets: []topsv1.OperationTarget{target("toolkit", ""), tt.target}}
		if got := replacesUnasked(op, tt.forgotten); got != tt.want {
			t.Errorf("%s: violation %t, want %t", tt.name, got, tt.want)
		}
	}
}
