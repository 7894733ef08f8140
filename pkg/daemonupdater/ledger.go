package daemonupdater

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// ledgerOf reads the ledger from the status of a DaemonRollout.
func ledgerOf(status *topsv1.DaemonRolloutStatus) rollout.Ledger {
	ledger := rollout.Ledger{
		Revision: status.Revision, Limit: status.LimitedTo, Touched: int(status.Touched), Resumed: status.Resumed,
		Usual: time.Duration(status.UsualSeconds) * time.Second,
	}
	if status.ResumedTime != nil {
		ledger.ResumedAt = status.ResumedTime.Time
	}
	if status.LastStartTime != nil {
		ledger.LastStart = status.LastStartTime.Time
	}
	for _, w := range status.Waves {
		state := rollout.WaveState{Name: w.Name, Total: int(w.Total), Updated: int(w.Updated)}
		if w.CompletedTime != nil {
			state.Completed = w.CompletedTime.Time
		}
		ledger.Waves = append(ledger.Waves, state)
	}
	for i := range status.InFlight {
		ledger.Slots = append(ledger.Slots, slotOf(&status.InFlight[i], false))
	}
	for i := range status.Queued {
		ledger.Slots = append(ledger.Slots, slotOf(&status.Queued[i], true))
	}
	for _, f := range status.Failed {
		ledger.Failures = append(ledger.Failures, rollout.Failure{
			Node: f.Node, UID: f.UID, Reason: rollout.Reason(f.Reason), Message: f.Message, Since: f.Since.Time,
		})
	}
	return ledger
}

// storeLedger writes the ledger into a status.
func storeLedger(status *topsv1.DaemonRolloutStatus, ledger rollout.Ledger) {
	status.Revision, status.LimitedTo, status.Touched, status.Resumed = ledger.Revision, ledger.Limit, int32(ledger.Touched), ledger.Resumed
	status.ResumedTime, status.LastStartTime = timeOrNil(ledger.ResumedAt), timeOrNil(ledger.LastStart)
	status.UsualSeconds = int32(ledger.Usual.Round(time.Second) / time.Second)
	status.InFlight, status.Queued, status.Failed, status.Waves = nil, nil, nil, nil
	for _, w := range ledger.Waves {
		if len(ledger.Waves) == 1 {
			break // no policy speaks of waves
		}
		state := topsv1.WaveStatus{Name: w.Name, Total: int32(w.Total), Updated: int32(w.Updated)}
		state.CompletedTime = timeOrNil(w.Completed)
		status.Waves = append(status.Waves, state)
	}
	for i := range ledger.Slots {
		list := &status.InFlight
		if ledger.Slots[i].Queued {
			list = &status.Queued
		}
		*list = append(*list, nodeSlot(&ledger.Slots[i]))
	}
	for i, f := range ledger.Failures {
		note := topsv1.NodeNote{Node: f.Node, UID: f.UID, Reason: string(f.Reason), Message: f.Message, Since: wholeSecond(f.Since)}
		if i >= maxListed {
			note.Message = ""
		}
		status.Failed = append(status.Failed, note)
	}
}

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	whole := wholeSecond(t)
	return &whole
}

func slotOf(s *topsv1.NodeSlot, queued bool) rollout.Slot {
	return rollout.Slot{
		Node: s.Node, UID: s.UID, Since: s.Since.Time, Revision: s.Revision, Turn: s.Turn, Queued: queued,
		Pod: s.PodUID, PodVersion: s.PodVersion, Members: s.DaemonSets, Operation: s.Operation,
	}
}

func nodeSlot(s *rollout.Slot) topsv1.NodeSlot {
	return topsv1.NodeSlot{
		Node: s.Node, UID: s.UID, Since: wholeSecond(s.Since), Revision: s.Revision, Turn: s.Turn,
		PodUID: s.Pod, PodVersion: s.PodVersion, DaemonSets: s.Members,
		Operation: s.Operation,
	}
}

// mustPrecede reports whether a new status has to be stored before anything else
// happens, because the ledger in it differs. The rest of a status may follow later.
func mustPrecede(stored, next *topsv1.DaemonRolloutStatus) bool {
	return stored.Revision != next.Revision || stored.Resumed != next.Resumed || len(stored.Failed) != len(next.Failed) ||
		!allStored(next.InFlight, stored.InFlight, stored.Queued) || !allStored(next.Queued, stored.Queued) || !sameMemory(stored, next)
}

// allStored reports whether every slot is in one of the stored lists. A slot that is
// stored and not needed any more may be dropped later, and that a queued node was
// started may be said later.
func allStored(slots []topsv1.NodeSlot, stored ...[]topsv1.NodeSlot) bool {
	byNode := map[string]*topsv1.NodeSlot{}
	for _, list := range stored {
		for i := range list {
			byNode[list[i].Node] = &list[i]
		}
	}
	for i := range slots {
		s, old := &slots[i], byNode[slots[i].Node]
		if old == nil || old.UID != s.UID || old.Revision != s.Revision || old.Turn != s.Turn ||
			old.Operation != s.Operation || old.PodUID != s.PodUID || old.PodVersion != s.PodVersion {
			return false
		}
	}
	return true
}
