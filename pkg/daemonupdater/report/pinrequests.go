package report

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Reasons of a task that answers what a person asks for, with annotation task-override or on the node.
const (
	reasonUndone = string(rollout.ReasonUndone)
	reasonFreed  = "Freed"

	reasonWithdrawn = topsv1.ReasonWithdrawn
	withdrawnInTime = "the request was withdrawn on the node before the node was touched"
)

// pinRequestTask returns the task that answers a pin request of a node, false if that is for another group.
func (a *RequestResults) pinRequestTask(node string, asked *observed.PinRequest, shown *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool) {
	ask, ours := pinning.RequestFor(node, asked, a.State.Members)
	if !ours {
		return topsv1.UpgradeTask{}, false
	}
	task := topsv1.UpgradeTask{RequestID: ask.ID, Name: node + "_" + a.State.Members[ask.Member].DaemonSet.Name + "_" + ask.Verb}
	if shown != nil {
		task.StartTime = shown.StartTime
	}
	task.State, task.Reason, task.Message = a.pinRequestState(&ask)
	if asked.Withdrawn && task.State == topsv1.TaskWaiting {
		task.State, task.Reason, task.Message = topsv1.TaskWithdrawn, reasonWithdrawn, withdrawnInTime
	}
	now := wholeSecond(a.Input.Now)
	if task.State != topsv1.TaskWaiting && task.StartTime == nil {
		task.StartTime = &now
	}
	if task.State.Final() {
		task.EndTime = &now
	}
	return task, true
}

// pinRequestState returns the progress of a pin request. An undo is done when the pod at the earlier revision
// is available; a rejection is final.
func (a *RequestResults) pinRequestState(ask *pinning.Request) (state topsv1.TaskState, reason, message string) {
	key := a.Input.Members[ask.Member].Key
	if refusal, refused := a.Refused[ask.Key()]; refused {
		return topsv1.TaskFailed, refusal.Reason, refusal.Message
	}
	pin := slices.IndexFunc(a.Decision.Ledger.Pins, func(p rollout.Pin) bool { return p.Node == ask.Node && p.Member == key })
	pinned := pin >= 0
	verdict, _ := a.Decision.Verdict(ask.Node)
	switch {
	case a.Input.Blocked != nil:
		return topsv1.TaskWaiting, a.Input.Blocked.Reason, a.Input.Blocked.Message
	case a.PinRequestsBlockedBy != "" && (!pinned || ask.Verb == observed.VerbRetry):
		return topsv1.TaskWaiting, pinning.ReasonNoGate, a.PinRequestsBlockedBy
	case ask.Verb == observed.VerbRetry:
		return topsv1.TaskDone, reasonFreed, fmt.Sprintf("node %s gets the target of %s like any other", ask.Node, key)
	case !pinned:
		return topsv1.TaskWaiting, string(verdict.Reason), verdict.Message
	case verdict.State == rollout.Pinned:
		return topsv1.TaskDone, reasonUndone, a.Decision.Ledger.Pins[pin].Message // the node's own message may be about another component
	case verdict.State == rollout.Failed:
		return topsv1.TaskFailed, string(verdict.Reason), verdict.Message
	}
	return topsv1.TaskRunning, string(verdict.Reason), verdict.Message
}
