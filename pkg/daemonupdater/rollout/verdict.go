package rollout

import (
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

func (p *planner) verdict(f *nodeFacts) Verdict {
	v := Verdict{Node: f.Name}
	switch {
	case f.slot != nil:
		w := f.wait()
		v.State, v.Reason, v.Message, v.Since = InFlight, w.reason, w.message, f.slot.Since
	case f.failure != nil:
		v.State, v.Reason, v.Message, v.Since = Failed, f.failure.Reason, f.failure.Message, f.failure.Since
	case f.updated():
		v.State, v.Reason = Updated, ReasonAtTarget
	case !f.Ready:
		v.State, v.Reason, v.Since = Skipped, ReasonNodeOffline, f.ReadySince
		v.Message = "the node was offline before it was touched; it is upgraded when it is Ready again"
	default:
		v.State = Pending
		v.Reason, v.Message = p.whyPending(f)
	}
	return v
}

func (p *planner) whyPending(f *nodeFacts) (Reason, string) {
	switch {
	case p.in.Blocked != nil:
		return ReasonBlocked, p.in.Blocked.Message
	case !f.outdated:
		return ReasonUnavailable, f.wait().message
	case p.in.Settings.Strategy == daemonset.OTA && !f.wants:
		return ReasonAwaitingRequest, "strategy OTA: the node is upgraded when its node agent is asked to"
	case p.in.Settings.Paused:
		return ReasonPaused, "the rollout is paused"
	case p.halted != "":
		return ReasonHalted, p.halted
	case f.whyNot != "":
		return f.whyNot, f.whyNotSaid
	}
	return ReasonUnavailable, f.wait().message
}
