package daemonupdater

import (
	"slices"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Two grs on the same nodes, both with components that are replaced by operations: what one of them
// prepares and does not grant, or keeps out of service, does not stop the other.

// twoGrs plays a story without faults on three nodes. The first gr has the driver, the second the
// toolkit, and each a budget of one node.
func twoGrs(t *testing.T, story func(w *simWorld, first, second *simGroup)) {
	t.Helper()
	w := play(t, 1, func(w *simWorld) {
		w.withOperations()
		w.policies, w.skews, w.accidents = nil, nil, nil
		w.orderly, w.calm = true, true
		w.populateWith(3, func() {
			w.addGroup(simFleet, "driver", "devicePlugin")
			w.addGroup(simSecond, "toolkit", "gfd")
		})
		for _, h := range w.hosts {
			h.machine.byHand, h.machine.says = false, nil
			h.machine.runtime, h.machine.configured = topsv1.DefaultRuntime, topsv1.DefaultRuntime
		}
		for _, g := range w.groups {
			w.annotate(g, topsv1.AnnotationMaxUnavailable, "1")
		}
		story(w, w.groups[0], w.groups[1])
	})
	if w.failed() {
		t.Error(w.violations[0])
		for _, line := range w.history {
			t.Log(line)
		}
	}
}

// gets gives some DaemonSets of a group another image.
func (w *simWorld) gets(g *simGroup, image string, sets ...int) {
	for _, set := range sets {
		w.setImage(g, set, image)
	}
	w.keepSpec(g)
}

// arrivesBut lets a group arrive on all nodes but one, "" for none.
func (w *simWorld) arrivesBut(g *simGroup, node, what string) bool {
	return w.until(what, 3*time.Hour, func() bool {
		return !slices.ContainsFunc(w.hosts, func(h *simHost) bool { return h.name != node && !w.atTarget(g, h.name) })
	})
}

// isPrepared reports whether operations of a group wait for their grant.
func (w *simWorld) isPrepared(g *simGroup) bool {
	return slices.ContainsFunc(simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades), func(u *topsv1.NodeUpgrade) bool {
		op := u.Status.Operation
		return op != nil && w.opGroup(op.ID) == g && op.PreparedTime != nil && !op.Granted && !op.Phase.Final()
	})
}

// Contract 97.
func TestANodeThatAnotherGroupKeepsOutOfServiceStopsNothingElse(t *testing.T) {
	twoGrs(t, func(w *simWorld, first, second *simGroup) {
		w.gets(first, "noload-1", 0)
		kept := ""
		if !w.until("a node is kept out of service", 2*time.Hour, func() bool {
			for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
				if op := u.Status.Operation; op != nil && op.Held {
					kept = u.Name
				}
			}
			return kept != "" && w.isPrepared(first)
		}) {
			return
		}
		w.gets(second, "good-1", 1)
		w.arrivesBut(second, kept, "a light change gets to the other nodes, within a budget of one")
		w.gets(second, "good-2", 0, 1)
		w.arrivesBut(second, kept, "and so does one that needs operations")
		w.gets(first, "good-2", 0)
		w.arrivesBut(first, "", "the first group goes on")
		w.arrivesBut(second, "", "and with it the second on the node that was kept")
	})
}

// Otherwise the node would wait for a person: the operation keeps it from the only group that can replace the plugin.
func TestAPluginThatFailsDoesNotFailTheOperationOfAnotherGroup(t *testing.T) {
	twoGrs(t, func(w *simWorld, first, second *simGroup) {
		w.gets(first, "relapse-1", 1)
		has := ""
		if !w.until("a node has a plugin that relapses", time.Hour, func() bool {
			for _, h := range w.hosts {
				if pod := w.podOn(first.sets[1], h.name); pod != nil && len(pod.Status.ContainerStatuses) > 0 {
					has = h.name
				}
			}
			return has != ""
		}) {
			return
		}
		w.gets(second, "good-1", 0)
		w.arrivesBut(second, has, "the toolkit gets to the other nodes")
		if !w.until("the operation there has ended", 3*time.Hour, func() bool {
			u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: has})
			return u.Status.Operation != nil && u.Status.Operation.Phase.Final()
		}) {
			return
		}
		w.gets(first, "good-2", 1)
		w.arrivesBut(first, "", "the first group replaces its plugin")
		w.arrivesBut(second, "", "and the second is done everywhere")
	})
}
