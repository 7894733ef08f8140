package daemonupdater

import (
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// ledgerOf reads the ledger from the status of a DaemonRollout.
func ledgerOf(status *topsv1.DaemonRolloutStatus) rollout.Ledger {
	ledger := rollout.Ledger{
		Revision: status.Revision, Touched: int(status.Touched), Resumed: status.Resumed,
		Usual: time.Duration(status.UsualSeconds) * time.Second,
	}
	for _, w := range status.Waves {
		state := rollout.WaveState{Name: w.Name, Total: int(w.Total), Updated: int(w.Updated)}
		if w.CompletedTime != nil {
			state.Completed = w.CompletedTime.Time
		}
		ledger.Waves = append(ledger.Waves, state)
	}
	for _, s := range status.InFlight {
		ledger.Slots = append(ledger.Slots, rollout.Slot{
			Node: s.Node, UID: s.UID, Since: s.Since.Time, Revision: s.Revision, Pod: s.PodUID, PodVersion: s.PodVersion, Members: s.DaemonSets,
		})
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
	status.Revision, status.Touched, status.Resumed = ledger.Revision, int32(ledger.Touched), ledger.Resumed
	status.UsualSeconds = int32(ledger.Usual.Round(time.Second) / time.Second)
	status.InFlight, status.Failed, status.Waves = nil, nil, nil
	for _, w := range ledger.Waves {
		if len(ledger.Waves) == 1 {
			break // no policy speaks of waves
		}
		state := topsv1.WaveStatus{Name: w.Name, Total: int32(w.Total), Updated: int32(w.Updated)}
		if !w.Completed.IsZero() {
			completed := wholeSecond(w.Completed)
			state.CompletedTime = &completed
		}
		status.Waves = append(status.Waves, state)
	}
	for _, s := range ledger.Slots {
		status.InFlight = append(status.InFlight, topsv1.NodeSlot{
			Node: s.Node, UID: s.UID, Since: wholeSecond(s.Since), Revision: s.Revision, PodUID: s.Pod, PodVersion: s.PodVersion, DaemonSets: s.Members,
		})
	}
	for i, f := range ledger.Failures {
		note := topsv1.NodeNote{Node: f.Node, UID: f.UID, Reason: string(f.Reason), Message: f.Message, Since: wholeSecond(f.Since)}
		if i >= maxListed {
			note.Message = ""
		}
		status.Failed = append(status.Failed, note)
	}
}

// mustPrecede tells whether a new status has to be stored before anything else
// happens, because the ledger in it differs. The rest of a status may follow later.
func mustPrecede(stored, next *topsv1.DaemonRolloutStatus) bool {
	return stored.Revision != next.Revision || stored.Touched != next.Touched || stored.Resumed != next.Resumed ||
		!sameSlots(stored.InFlight, next.InFlight) || len(stored.Failed) != len(next.Failed) || !sameMemory(stored, next)
}

// sameSlots tells whether every slot of next is stored already. A slot that is
// stored and not needed any more may be dropped later.
func sameSlots(stored, next []topsv1.NodeSlot) bool {
	byNode := make(map[string]topsv1.NodeSlot, len(stored))
	for _, s := range stored {
		byNode[s.Node] = s
	}
	for _, s := range next {
		if old, ok := byNode[s.Node]; !ok || old.UID != s.UID || old.PodUID != s.PodUID || old.PodVersion != s.PodVersion || old.Revision != s.Revision {
			return false
		}
	}
	return true
}
