package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// maxListed bounds status.skipped, and the number of messages in status.failed; the counts include all.
// maxMessage bounds the bytes of a message, and maxCondition those of the message of a condition, which
// may include several. So the status without the ledger and the record takes less than 64 KiB.
const (
	maxListed    = 20
	maxMessage   = 1024
	maxCondition = 4096
)

// storeLedger writes the ledger into a status.
func storeLedger(status *topsv1.DaemonRolloutStatus, ledger rollout.Ledger) {
	status.Revision, status.LimitedTo, status.Resumed = ledger.Revision, ledger.Limit, ledger.Resumed
	status.Touched, status.Started = int32(ledger.Touched), int32(ledger.Started)
	status.ResumedTime, status.LastStartTime = timeOrNil(ledger.ResumedAt), timeOrNil(ledger.LastStart)
	status.LastProgressTime, status.LastDecisionTime = timeOrNil(ledger.LastProgress), timeOrNil(ledger.Decided)
	status.UsualSeconds = int32(ledger.Usual.Round(time.Second) / time.Second)
	status.InFlight, status.Queued, status.Failed, status.Pinned, status.Waves = nil, nil, nil, nil, nil
	for _, w := range ledger.Waves {
		if len(ledger.Waves) == 1 {
			break // no policy with waves
		}
		state := topsv1.WaveStatus{Name: w.Name, Total: int32(w.Total), Updated: int32(w.Updated)}
		state.CompletedTime, state.SoakedTime = timeOrNil(w.Completed), timeOrNil(w.Soaked)
		status.Waves = append(status.Waves, state)
	}
	inFlight := ledger.InFlight()
	status.InFlight, status.Queued = slices.Grow(status.InFlight, inFlight), slices.Grow(status.Queued, len(ledger.Slots)-inFlight)
	for i := range ledger.Slots {
		list := &status.InFlight
		if ledger.Slots[i].Queued {
			list = &status.Queued
		}
		*list = append(*list, nodeSlot(&ledger.Slots[i]))
	}
	for i := range ledger.Failures {
		note := failedNode(&ledger.Failures[i])
		note.Message = message.Short(note.Message, maxMessage)
		if i >= maxListed {
			note.Message = ""
		}
		status.Failed = append(status.Failed, note)
	}
	for i := range ledger.Pins {
		status.Pinned = append(status.Pinned, nodePin(&ledger.Pins[i]))
	}
}

func nodePin(p *rollout.Pin) topsv1.NodePin {
	return topsv1.NodePin{Node: p.Node, UID: p.UID, MachineID: p.Machine, DaemonSet: p.Member, Hash: p.Revision, From: p.From,
		Reason: string(p.Reason), Message: p.Message, Since: wholeSecond(p.Since), RequestedTime: timeOrNil(p.Requested), Failed: p.Failed}
}

func failedNode(f *rollout.Failure) topsv1.NodeNote {
	note := topsv1.NodeNote{Node: f.Node, UID: f.UID, MachineID: f.Machine, Reason: string(f.Reason), Message: f.Message, Since: wholeSecond(f.Since), RequestedTime: timeOrNil(f.Requested)}
	for _, t := range f.Targets {
		note.Targets = append(note.Targets, topsv1.RevisionTarget{DaemonSet: t.Member, Hash: t.Revision})
	}
	return note
}

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	whole := wholeSecond(t)
	return &whole
}

func nodeSlot(s *rollout.Slot) topsv1.NodeSlot {
	return topsv1.NodeSlot{
		Node: s.Node, UID: s.UID, Since: wholeSecond(s.Since), Revision: s.Revision, Turn: s.Turn,
		PodUID: s.Pod, PodVersion: s.PodVersion, DaemonSets: s.Members,
		Operation: s.Operation, ProgressTime: timeOrNil(s.Progress), NewestPodTime: timeOrNil(s.Newest), IdleSeconds: int64(s.Idle / time.Second),
	}
}

// wholeSecond truncates a time to the precision that the API server keeps.
func wholeSecond(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
