package ota

import (
	"context"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Withdraw takes back what was asked for at this node and was not started: on this node
// alone when the operator was not told of it yet, else by asking the operator, who says
// in the task of each request whether that was in time. It returns the operation as it
// is then, not ended while the operator has not answered; requests that were made alone
// are put into a new one. When it returns nil that is durable on this node. Its errors
// are *Refusal: ReasonFleetWide when nothing waits.
func (in *Inbox) Withdraw(ctx context.Context) (Operation, error) {
	if err := in.takeTurn(ctx); err != nil {
		return Operation{}, disconnected(err, wishNotKept)
	}
	defer in.endTurn()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodeUpgrade, err := in.observe(ctx)
	if err != nil && !away(err) {
		return Operation{}, disconnected(err, wishNotKept)
	}
	r, waiting := in.current()
	if r.Queued {
		return in.withdrawQueued(r)
	}
	pending := slices.ContainsFunc(in.entries, func(e entry) bool { return e.open() && e.Request.Withdrawn })
	if r.ID == "" || len(waiting) == 0 && !pending {
		return Operation{}, nothingWaits(r.ID)
	}
	if err := in.takeBack(&r, waiting); err != nil {
		return Operation{}, notRecorded(err)
	}
	if nodeUpgrade == nil {
		in.wake()
	} else if err := in.show(ctx, nodeUpgrade, in.showable(nodeUpgrade, in.entries)); err != nil {
		in.log.Error(err, "Cannot tell the operator yet that requests are taken back", "operation", r.ID)
		in.wake()
	}
	in.publish(nil)
	answer, _, err := in.Operation(r.ID)
	return answer, err
}

// withdrawQueued ends an operation that the operator was not told of.
func (in *Inbox) withdrawQueued(r record) (Operation, error) {
	if !in.untold(r) { // the operator may know a part of it
		return Operation{}, refuse(ReasonDisconnected, "Operation %s is being sent to the operator: try again in a moment.", r.ID)
	}
	r = r.ended(Withdrawn, reasonWithdrawn, "it was taken back before the operator received it", seconds(in.clock.Now()))
	if err := in.book.put(r); err != nil {
		return Operation{}, notRecorded(err)
	}
	in.publish(nil)
	answer, _, err := in.Operation(r.ID)
	return answer, err
}

// takeBack records that requests of an operation are taken back. The operation is there
// before, so that a repeated order finds it wherever the agent was killed.
func (in *Inbox) takeBack(r *record, requests []string) error {
	in.log.Info("Recording that requests are taken back", "operation", r.ID, "requests", len(requests))
	if err := in.book.put(*r); err != nil {
		return err
	}
	if err := in.keep(marked(in.entries, requests)); err != nil {
		return err
	}
	r.Withdrawn = true
	return in.book.put(*r)
}

// current returns the operation that has not ended, and the ids of the requests that
// may be taken back: those of which nobody has said that they run. Requests that were
// made alone make a new operation when there is none; its id is "" when there are none.
func (in *Inbox) current() (r record, waiting []string) {
	p, _ := in.board.read()
	var tasks []topsv1.UpgradeTask
	if p.nodeUpgrade != nil {
		tasks = p.nodeUpgrade.Status.Tasks
	}
	alone := record{Sequence: nextOperation(in.book.records), Accepted: seconds(in.clock.Now())}
	alone.ID = operationID(in.nodeName, "", alone.Sequence, in.clock.Now())
	for _, e := range in.entries {
		if !e.open() || e.Request.Withdrawn || slices.ContainsFunc(tasks, func(t topsv1.UpgradeTask) bool {
			return t.RequestID == e.Request.ID && t.State != topsv1.TaskWaiting
		}) {
			continue
		}
		waiting = append(waiting, e.Request.ID)
		alone.Parts = append(alone.Parts, partOf(e.Request))
	}
	switch i := running(in.book.records); {
	case i >= 0:
		return in.book.records[i], waiting
	case len(waiting) > 0:
		return alone, waiting
	}
	return record{}, nil
}

// untold reports whether the operator cannot know of an operation: no request of it was
// ever recorded.
func (in *Inbox) untold(r record) bool {
	return !slices.ContainsFunc(in.entries, func(e entry) bool { return e.Request.Operation == r.ID })
}

// marked returns entries of which some are taken back. The input is not changed.
func marked(entries []entry, ids []string) []entry {
	entries = slices.Clone(entries)
	for i := range entries {
		if slices.Contains(ids, entries[i].Request.ID) {
			entries[i].Request.Withdrawn = true
		}
	}
	return entries
}

// nothingWaits refuses to take back what has started: one node does not go back alone
// (docs/adr/0012-ota-endpoint.md). operation is the one that runs, "" for none.
func nothingWaits(operation string) *Refusal {
	what := "Nothing waits on this node that could be taken back"
	if operation != "" {
		what = "Operation " + operation + " has started, and goes on"
	}
	refusal := refuse(ReasonFleetWide, "%s. To an older version one node cannot go alone: every pod of a DaemonSet is made from its newest template. "+
		"Hold this node (node-agent ota hold, POST /v1/hold), and have the fleet rolled back: kubectl annotate gr NAME topsops.enflame.com/rollback-to=previous, "+
		"or kubectl rollout undo daemonset NAME. Then release and upgrade this node.", what)
	refusal.Operation = operation
	return refusal
}
