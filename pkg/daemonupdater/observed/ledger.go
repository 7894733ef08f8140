package observed

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Ledger reads the ledger from the status of a DaemonRollout.
func Ledger(status *topsv1.DaemonRolloutStatus, now time.Time) rollout.Ledger {
	ledger := rollout.Ledger{
		Revision: status.Revision, Limit: status.LimitedTo, Touched: int(status.Touched), Started: int(status.Started), Resumed: status.Resumed,
		Usual: time.Duration(status.UsualSeconds) * time.Second,
	}
	ledger.ResumedAt = timeOf(status.ResumedTime)
	ledger.LastStart, ledger.LastProgress = timeOf(status.LastStartTime), timeOf(status.LastProgressTime)
	ledger.Decided = timeOf(status.LastDecisionTime)
	for _, w := range status.Waves {
		state := rollout.WaveProgress{Name: w.Name, Total: int(w.Total), Updated: int(w.Updated)}
		state.Completed, state.Soaked = timeOf(w.CompletedTime), timeOf(w.SoakedTime)
		ledger.Waves = append(ledger.Waves, state)
	}
	ledger.Slots = slices.Grow(ledger.Slots, len(status.InFlight)+len(status.Queued))
	for i := range status.InFlight {
		ledger.Slots = append(ledger.Slots, slotOf(&status.InFlight[i], false))
	}
	for i := range status.Queued {
		ledger.Slots = append(ledger.Slots, slotOf(&status.Queued[i], true))
	}
	for i := range status.Failed {
		ledger.Failures = append(ledger.Failures, recordedFailure(&status.Failed[i], now))
	}
	for i := range status.Pinned {
		ledger.Pins = append(ledger.Pins, pinOf(&status.Pinned[i], now))
	}
	return ledger
}

// requestBefore returns the recorded time of the request before a failure or pin, zero for one of a clock that was ahead: no request is
// later than now (RequestedAt), so a new one would be older than that until the clock has caught up.
func requestBefore(recorded *metav1.Time, now time.Time) time.Time {
	if at := timeOf(recorded); !daemonset.IsAhead(at, now) {
		return at
	}
	return time.Time{}
}

func pinOf(p *topsv1.NodePin, now time.Time) rollout.Pin {
	return rollout.Pin{Node: p.Node, UID: p.UID, Machine: p.MachineID, Member: p.DaemonSet, Revision: p.Hash, From: p.From,
		Reason: rollout.Reason(p.Reason), Message: p.Message, Since: p.Since.Time, Requested: requestBefore(p.RequestedTime, now), Failed: p.Failed}
}

func recordedFailure(n *topsv1.NodeNote, now time.Time) rollout.Failure {
	f := rollout.Failure{Node: n.Node, UID: n.UID, Machine: n.MachineID, Reason: rollout.Reason(n.Reason), Message: n.Message, Since: n.Since.Time,
		Requested: requestBefore(n.RequestedTime, now)}
	for _, t := range n.Targets {
		f.Targets = append(f.Targets, rollout.Target{Member: t.DaemonSet, Revision: t.Hash})
	}
	return f
}

func slotOf(s *topsv1.NodeSlot, queued bool) rollout.Slot {
	slot := rollout.Slot{
		Node: s.Node, UID: s.UID, Since: s.Since.Time, Revision: s.Revision, Turn: s.Turn, Queued: queued,
		Pod: s.PodUID, PodVersion: s.PodVersion, Members: s.DaemonSets, Operation: s.Operation,
		Idle: time.Duration(s.IdleSeconds) * time.Second,
	}
	slot.Progress = timeOf(s.ProgressTime)
	slot.Newest = timeOf(s.NewestPodTime)
	return slot
}

// timeOf returns a recorded time, zero for none.
func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
