package response

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// OperationOf returns the response for an operation; nodeUpgrade is the last known one, or
// nil.
func OperationOf(o request.Operation, nodeUpgrade *topsv1.NodeUpgrade) Operation {
	shown := Operation{
		ID: o.ID, Component: o.Wanted.Component, Rollback: o.Wanted.Rollback, State: o.State(), Message: Message(o), AcceptedTime: o.Accepted, EndTime: o.End, Requests: []Part{},
		Progress: Progress{Total: len(o.Parts)},
	}
	for _, p := range o.Parts {
		shown.Requests = append(shown.Requests, Part{
			Component: p.Component, Namespace: p.Pod.Namespace, Pod: p.Pod.Name, Revision: p.Revision,
			State: p.State, Reason: p.Reason, Message: p.Message,
		})
		if p.State.Final() {
			shown.Progress.Done++
		}
	}
	switch {
	case o.Queued:
		shown.Offline = OfflineQueued
	case !shown.State.Final():
		shown.addProgress(o, nodeUpgrade)
	}
	return shown
}

// Message summarizes an operation.
func Message(o request.Operation) string {
	state := o.State()
	if o.Withdrawn && (o.Queued || state == request.Waiting) {
		return "withdrawn; the operator has not confirmed yet that nothing was started"
	}
	if o.Queued {
		return "kept on this node until the API server is reachable"
	}
	if len(o.Parts) == 0 {
		return "nothing on this node is outdated"
	}
	if state == request.Done && o.Wanted.Rollback {
		own := slices.DeleteFunc(slices.Clone(o.Parts), func(p request.Part) bool { return p.OtherRequest })
		return message.Count(len(own), "component") + " rolled back to the previous revision and pinned there"
	}
	if state == request.Done {
		return message.Count(len(o.Parts), "component") + " at the newest revision"
	}
	for _, p := range o.Parts {
		if p.State == state && p.Message != "" {
			return p.Component + ": " + p.Message
		} else if p.State == state {
			return p.Component
		}
	}
	return ""
}

// addProgress adds the current task and progress of the node's operation if it belongs to this
// operation.
func (shown *Operation) addProgress(o request.Operation, nodeUpgrade *topsv1.NodeUpgrade) {
	if nodeUpgrade == nil || nodeUpgrade.Spec.Operation == nil || nodeUpgrade.Status.Operation == nil {
		return
	}
	spec, status := nodeUpgrade.Spec.Operation, nodeUpgrade.Status.Operation
	ours := slices.ContainsFunc(spec.Targets, func(t topsv1.OperationTarget) bool {
		return slices.ContainsFunc(t.All(), func(of topsv1.DaemonSetRevision) bool {
			return slices.ContainsFunc(o.Parts, func(p request.Part) bool { return p.DaemonSet.UID == of.DaemonSet.UID && !p.State.Final() })
		})
	})
	if spec.ID != status.ID || status.Phase.Final() || !ours {
		return
	}
	shown.Task, shown.Progress = status.Task, Progress{Total: len(status.Tasks)}
	for _, t := range status.Tasks {
		if t.State == topsv1.OperationTaskDone || t.State == topsv1.OperationTaskSkipped {
			shown.Progress.Done++
		}
	}
	if status.Message != "" {
		shown.Message = status.Message
	}
}
