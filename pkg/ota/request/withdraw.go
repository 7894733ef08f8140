package request

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Withdrawable returns the unfinished operation, and the ids of the requests that may be
// withdrawn: those without a task that has left Waiting. Without an operation, single
// requests make up a new one; its id is "" if there are none.
func Withdrawable(operations []Operation, requests []Request, tasks []topsv1.UpgradeTask, nodeName string, now time.Time) (o Operation, waiting []string) {
	alone := Operation{Sequence: nextOperation(operations), Accepted: Seconds(now)}
	alone.ID = OperationID(nodeName, "", alone.Sequence, now)
	for _, r := range requests {
		if !r.Open() || r.Withdrawn || slices.ContainsFunc(tasks, func(t topsv1.UpgradeTask) bool {
			return t.RequestID == r.ID && t.State != topsv1.TaskWaiting
		}) {
			continue
		}
		waiting = append(waiting, r.ID)
		alone.Parts = append(alone.Parts, partOf(r.UpgradeRequest))
	}
	switch i := Unfinished(operations); {
	case i >= 0:
		return operations[i], waiting
	case len(waiting) > 0:
		return alone, waiting
	}
	return Operation{}, nil
}

// ReturnedFor adds the key of a rollback that returns this operation, "" for none, and keeps the last KeptOperations
// keys. The input is not changed.
func (o Operation) ReturnedFor(nodeName, key string) Operation {
	id := OperationID(nodeName, key, 0, time.Time{})
	if key != "" && !slices.Contains(o.RollbackKeys, id) {
		keys := append(slices.Clone(o.RollbackKeys), id)
		o.RollbackKeys = keys[max(0, len(keys)-KeptOperations):]
	}
	return o
}

// Withdraw marks some of the requests as withdrawn. The input is not changed.
func Withdraw(requests []Request, ids []string) []Request {
	requests = slices.Clone(requests)
	for i := range requests {
		if slices.Contains(ids, requests[i].ID) {
			requests[i].Withdrawn = true
		}
	}
	return requests
}

// InterruptedWithdrawal returns the operation whose withdrawal was not recorded as a whole, because the agent was killed or the disk
// failed, and the ids of the other requests that may be withdrawn: those of the operation, or all if it was not sent as a whole. False
// if there is none.
func InterruptedWithdrawal(operations []Operation, requests []Request, tasks []topsv1.UpgradeTask) (o Operation, waiting []string, is bool) {
	i := Unfinished(operations)
	if i >= 0 && operations[i].Queued && operations[i].Withdrawn {
		o, waiting = Withdrawable(operations, requests, tasks, "", time.Time{})
		return o, waiting, true
	}
	if i < 0 || operations[i].Withdrawn || !slices.ContainsFunc(operations[i].Of(requests), func(r Request) bool { return r.Withdrawn }) {
		return Operation{}, nil, false
	}
	o, waiting = Withdrawable(operations, operations[i].Of(requests), tasks, "", time.Time{})
	return o, waiting, true
}

// Unconfirmed reports whether a withdrawal still waits for the operator's answer.
func Unconfirmed(requests []Request) bool {
	return slices.ContainsFunc(requests, func(r Request) bool { return r.Open() && r.Withdrawn })
}

// Of returns the requests of an operation.
func (o Operation) Of(requests []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return r.Operation != o.ID })
}

// Others returns those of the ids that no request of the operation has.
func (o Operation) Others(requests []Request, ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return indexOf(o.Of(requests), id) >= 0 })
}

// AddOthers adds the requests of other operations that are withdrawn along with an unfinished rollback: the rollback ends only when the
// operator has answered them. The input is not changed.
func (o Operation) AddOthers(requests []Request, others []string) Operation {
	o.Parts = slices.Clone(o.Parts)
	for _, r := range requests {
		known := slices.ContainsFunc(o.Parts, func(p Part) bool { return p.Request == r.ID })
		if !known && slices.Contains(others, r.ID) {
			part := partOf(r.UpgradeRequest)
			part.OtherRequest = true
			o.Parts = append(o.Parts, part)
		}
	}
	return o
}

// WithdrawOthers marks as withdrawn the requests of other operations that an unfinished rollback withdraws: the agent may have been killed
// before it did. The input is not changed.
func WithdrawOthers(operations []Operation, requests []Request) []Request {
	var ids []string
	if i := Unfinished(operations); i >= 0 {
		for _, p := range operations[i].Parts {
			if p.OtherRequest {
				ids = append(ids, p.Request)
			}
		}
	}
	return Withdraw(requests, ids)
}

// Unsent reports whether the operator cannot know of an operation, because no request of it
// was ever recorded.
func (o Operation) Unsent(requests []Request) bool { return len(o.Of(requests)) == 0 }

// AsSent returns an operation that was not sent as a whole as one that was, to be withdrawn: its recorded requests, and those that
// are withdrawn with it, may have reached the operator, and each is a part; the other parts are withdrawn. The input is not changed.
func (o Operation) AsSent(requests []Request) Operation {
	var parts []Part
	for _, r := range requests {
		if r.Operation == o.ID || r.Open() && r.Withdrawn {
			parts = append(parts, partOf(r.UpgradeRequest))
		}
	}
	for _, p := range o.Parts {
		i := slices.IndexFunc(parts, func(sent Part) bool { return sent.Pod.UID == p.Pod.UID })
		if i < 0 {
			p.State, p.Reason, p.Message = Withdrawn, string(ReasonWithdrawn), "it was withdrawn before the operator received it"
			parts = append(parts, p)
			continue
		}
		parts[i].Component = p.Component
	}
	o.Queued, o.Parts = false, parts
	return o
}

// Ended returns an operation that ended before anything was done, with the same end for all
// parts.
func (o Operation) Ended(state State, reason Reason, message string, now time.Time) Operation {
	end := Seconds(now)
	o.Queued, o.End, o.Parts = false, &end, slices.Clone(o.Parts)
	if len(o.Parts) == 0 {
		o.Parts = []Part{{Component: o.Wanted.Component}}
	}
	for i := range o.Parts {
		o.Parts[i].State, o.Parts[i].Reason, o.Parts[i].Message = state, string(reason), message
	}
	return o
}

// Started refuses to withdraw an operation that has started.
func (o Operation) Started() *Refusal {
	refusal := Refuse(ReasonOperationRunning, "Operation %s has started and continues: wait for its end with node-agent ota watch, or GET /v1/operations/%[1]s?wait=30s. "+
		"Then the same command restores the previous revision. Until then you can only hold this node (node-agent ota hold, POST /v1/hold) or roll back the fleet (kubectl gcu rollback).", o.ID)
	refusal.Operation = o.ID
	return refusal
}
