package daemonupdater

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pass is one pass over a group: what it read and decided.
type pass struct {
	*observed.State
	// rolloutUnseen: this process created the rollout, but the cache does not show it. Someone
	// may have deleted it since, which would cause no event.
	rolloutUnseen bool
	fleet         *fleet
	in            rollout.Input
	decision      rollout.Decision
	// globals are the results of the tasks of the plan in force that belong to no node. awaitsGlobal: the group is
	// blocked until those before the nodes are done. again is when to look at them again, 0 if events do.
	globals      []topsv1.GlobalTaskNote
	awaitsGlobal bool
	again        time.Duration
	// refused are the asks of persons that are not carried out.
	refused map[pinning.AskKey]pinning.Refusal
	// asksWait says why none is decided now, "" if they are.
	asksWait string
}

// gateFacts returns what a decision about a pod at the gate depends on.
func (p *pass) gateFacts(w gating.Waiting) gating.Facts {
	released, _ := p.IsReleased(&p.in, &p.decision)
	key := w.DaemonSet.Namespace + "/" + w.DaemonSet.Name
	f := gating.Facts{
		Uncontrolled: released || !gating.IsGateable(w.DaemonSet),
		Granted:      slices.ContainsFunc(p.decision.Ledger.Slots, func(s rollout.Slot) bool { return s.Node == w.Node.Name && s.UID == w.Node.UID && !s.Queued }),
		Had:          p.fleet.had.Of(w.DaemonSet, w.Node),
	}
	for _, m := range p.in.Members {
		if m.Key == key {
			f.Target = m.Target
		}
	}
	for i := range p.decision.Ledger.Pins {
		if pin := &p.decision.Ledger.Pins[i]; pin.Node == w.Node.Name && pin.Member == key && pin.Holds(w.Node.Status.NodeInfo.MachineID) {
			f.Pin = pin.Revision
		}
	}
	if good := p.Rollout.Status.LastKnownGood; good != nil {
		f.Good = report.TargetIn(good.Targets, key)
	}
	if f.Had == "" && f.Good == "" {
		f.Common = p.fleet.had.Common(w.DaemonSet, f.Target)
	}
	f.Settled = report.TargetIn(p.Rollout.Status.Settled, key)
	return f
}
