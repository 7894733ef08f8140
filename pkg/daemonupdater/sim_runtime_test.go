package daemonupdater

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// drawAgent draws whether the agent of a machine leaves restarts to an administrator, and whether
// it says so.
func (w *simWorld) drawAgent(m *simMachine) {
	m.byHand = w.chance(8)
	if w.chance(2) {
		restarts := !m.byHand
		m.says = &restarts
	}
}

// startPlugin is the start of a device plugin, which sees the cards if the default runtime is right;
// without a toolkit always, as nobody would restart the runtime.
func (w *simWorld) startPlugin(h *simHost) {
	h.machine.blind = h.machine.runtime != topsv1.DefaultRuntime && w.toolkitGroup() != nil
}

// reboots starts the runtime of a host again, with what is configured by now, and then its pods.
func (w *simWorld) reboots(h *simHost) {
	m := h.machine
	w.say("host %s was rebooted", h.name)
	m.runs++
	m.runtime, m.began = m.configured, h.clock(w).Time
	w.startPlugin(h)
}

// reportsSoon lets the agent of a host look at once.
func (w *simWorld) reportsSoon(h *simHost) {
	if a := h.machine.agent; a != nil {
		a.due = w.now
	}
}

// toolkitGroup returns the group with the toolkit, nil if there is none.
func (w *simWorld) toolkitGroup() *simGroup {
	i := slices.IndexFunc(w.groups, func(g *simGroup) bool {
		return slices.ContainsFunc(g.sets, func(key simapi.Key) bool { return key.Name == upgradeplan.TargetToolkit })
	})
	if i < 0 {
		return nil
	}
	return w.groups[i]
}

// needRestart returns the hosts whose runtime has not been restarted.
func (w *simWorld) needRestart() (hosts []*simHost) {
	for _, h := range w.hosts {
		if h.machine.runtime != topsv1.DefaultRuntime {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// administer acts as an administrator who restarts the runtimes that he was asked to, once the
// rollout has said so for a while; until then their nodes are not updated. He is not asked for a node
// of a later wave.
func (w *simWorld) administer() {
	g, left := w.toolkitGroup(), slices.DeleteFunc(w.needRestart(), func(h *simHost) bool { return !h.machine.byHand })
	asked := slices.DeleteFunc(slices.Clone(left), func(h *simHost) bool { return g == nil || !w.isRequested(h) })
	for _, h := range left {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
		if w.calm && u != nil && u.Status.Operation != nil && u.Status.Operation.Held && u.Status.Operation.Reason == operation.ReasonLeftToAdministrator { // which says what to do
			w.restartByHand(h)
		}
	}
	if !w.calm || g == nil || len(asked) == 0 {
		w.ops.told = time.Time{}
		return
	}
	expected := 0 // others may wait for something else
	for _, h := range asked {
		if h.name != w.stuck && h.name != w.guarded() {
			expected++
		}
	}
	r := w.rolloutOf(g.id)
	said := r != nil && slices.ContainsFunc(r.Status.Waiting, func(n topsv1.WaitingNote) bool {
		return n.Reason == string(rollout.ReasonLeftToAdministrator) && int(n.Nodes) >= expected
	})
	switch {
	case !said:
		w.ops.told = time.Time{}
	case w.ops.told.IsZero():
		w.ops.told = w.now
	case w.now.Sub(w.ops.told) > 5*time.Minute:
		if int(r.Status.Updated) > len(w.hosts)-len(left) {
			w.violate("S10: %d nodes of %s are updated, and %d runtimes are left to the administrator", r.Status.Updated, g.id, len(left))
		}
		for _, h := range asked {
			w.restartByHand(h)
		}
	}
}

// isRequested reports whether nothing but a restart by the administrator is left for a node: one of a later
// wave may have its toolkit, and wait for another component.
func (w *simWorld) isRequested(h *simHost) bool {
	u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name})
	return u != nil && operation.LeftToAdministrator(u) != "" && !slices.ContainsFunc(w.toolkitGroup().sets, func(key simapi.Key) bool {
		ds, pod := simapi.Get[*appsv1.DaemonSet](w.api, key), w.podOn(key, h.name)
		return ds == nil || pod == nil || pod.Spec.Containers[0].Image != ds.Spec.Template.Spec.Containers[0].Image
	})
}

// restartByHand is the restart by an administrator. He does not know the plugin: it stays blind until
// somebody replaces it.
func (w *simWorld) restartByHand(h *simHost) {
	w.say("admin: the runtime of %s is restarted", h.name)
	h.machine.began = h.clock(w).Time
	h.machine.runs++
	h.machine.runtime = topsv1.DefaultRuntime
	w.reportsSoon(h)
}

// restartTheRest restarts the runtimes of hosts that cannot be emptied, by hand.
func (w *simWorld) restartTheRest() {
	if w.ops == nil {
		return
	}
	for _, h := range w.needRestart() {
		w.restartByHand(h)
	}
}

// checkRestarted checks that every reachable node has the runtime at the end.
func (w *simWorld) checkRestarted(when string) bool {
	g := w.toolkitGroup()
	if w.ops == nil || g == nil {
		return true
	}
	return w.until("every runtime is restarted "+when, 4*time.Hour, func() bool {
		return !slices.ContainsFunc(w.needRestart(), func(h *simHost) bool { return h.name != w.stuck && h.name != w.guarded() })
	}) && w.until("every plugin has cards "+when, 4*time.Hour, func() bool {
		return !slices.ContainsFunc(w.hosts, w.isBlind)
	})
}

// isBlind reports whether the plugin of a reachable host goes on without cards.
func (w *simWorld) isBlind(h *simHost) bool {
	plugin := w.podOn(simapi.Named(simSets, simNamespace, upgradeplan.TargetDevicePlugin), h.name)
	return h.machine.blind && plugin != nil && h.machine.runtime == topsv1.DefaultRuntime && h.machine.driver != "" && h.name != w.stuck && h.name != w.guarded()
}

// noCards reports whether a pass saw that a pod has no cards, which goes although it is at its target.
func (s simSeen) noCards(pod *corev1.Pod, ds *appsv1.DaemonSet) bool {
	u, node := s.upgrades[pod.Spec.NodeName], s.nodes[pod.Spec.NodeName]
	return u != nil && node != nil && operation.OffersNone(u, node, upgradeplan.TargetDevicePlugin, &pod.Spec) && operation.StartedWithoutCards(u, daemonset.Component(ds), pod)
}

// hasRestartedUnderSlot reports whether a slot names an operation for which the runtime of a host was restarted: if its
// NodeUpgrade is deleted, the operation is made again under its id, which is no reason for another restart. It fails
// then if somebody changed the runtime back, and says so; a person has to restart it.
func (w *simWorld) hasRestartedUnderSlot(h *simHost) bool {
	return slices.ContainsFunc(w.groups, func(g *simGroup) bool {
		r := w.rolloutOf(g.id)
		return r != nil && slices.ContainsFunc(simSlots(r), func(s topsv1.NodeSlot) bool { return s.Node == h.name && h.machine.restarts[s.Operation] > 0 })
	})
}

// restartsWithoutStrategy sets runtimes back once the gr has no strategy: they are restarted, under
// the default budget, and the rollout goes when they are.
func (w *simWorld) restartsWithoutStrategy() bool {
	if w.ops == nil || w.toolkitGroup() == nil || w.guarded()+w.stuck != "" {
		return true
	}
	w.annotate(w.toolkitGroup(), topsv1.AnnotationUpgradePolicy, "") // it is heeded, and nobody approves waves any more
	w.setRuntimesBack()
	return w.checkRestarted("without a strategy") &&
		w.until("nothing is left of restarts without a strategy", 2*time.Hour, w.nothingLeft)
}

// setRuntimesBack sets the runtimes of some hosts back.
func (w *simWorld) setRuntimesBack() {
	for _, h := range w.hosts {
		if u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name}); u != nil && w.chance(2) {
			w.say("host %s: somebody changes the runtime back", h.name)
			h.machine.runtime = "runc"
			w.reportsSoon(h)
		}
	}
}
