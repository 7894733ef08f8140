package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Waiting is why some nodes are not being upgraded.
type Waiting struct {
	Reason Reason
	// State is Pending or Held.
	State State
	// Message is that of one of the nodes.
	Message string
	// Nodes is how many wait for this reason.
	Nodes int
}

// Verdict says how a node stands; false when the fleet has no such node.
func (d *Decision) Verdict(node string) (Verdict, bool) {
	if n := d.plan.fleet.nodes[node]; n != nil {
		return d.plan.verdict(n), true
	}
	return Verdict{}, false
}

// Skipped returns the verdicts on the first nodes by name that are skipped, at
// most as many as given.
func (d *Decision) Skipped(most int) []Verdict {
	var list []Verdict
	d.plan.fleet.listed[away].Ascend(func(n *nodeFacts) bool {
		if v := d.plan.verdict(n); v.State == Skipped && len(list) < most {
			list = append(list, v)
		}
		return len(list) < most
	})
	return list
}

func (p *planner) verdict(f *nodeFacts) Verdict {
	v := Verdict{Node: f.Name}
	switch {
	case f.slot != nil:
		w := f.wait()
		v.State, v.Reason, v.Message, v.Since = InFlight, w.reason, w.message, f.slot.Since
	case f.failure != nil:
		v.State, v.Reason, v.Message, v.Since = Failed, f.failure.Reason, f.failure.Message, f.failure.Since
	case f.standing == finished:
		v.State, v.Reason = Updated, ReasonAtTarget
	case f.standing == away:
		v.State, v.Reason, v.Since = Skipped, ReasonNodeOffline, f.ReadySince
		v.Message = "the node was offline before it was touched; it is upgraded when it is Ready again"
	default:
		v.Reason, v.Message = p.whyNot(f)
		v.State = v.Reason.State()
	}
	return v
}

// whyNot says why a Ready node with something left to do is not being upgraded.
func (p *planner) whyNot(f *nodeFacts) (Reason, string) {
	if p.in.Blocked != nil {
		return ReasonBlocked, p.in.Blocked.Message
	}
	if reason, message := f.outOfQuestion(); reason != "" {
		return reason, message
	}
	switch {
	case p.in.Settings.Paused:
		return ReasonPaused, "the rollout is paused"
	case p.halted != "":
		return ReasonHalted, p.halted
	case f.queued:
		return ReasonQueued, "is started as soon as there is room"
	case f.standing == resting:
		return ReasonRecentlyReturned, fmt.Sprintf("Ready since %s, is left alone for %s after a return",
			f.ReadySince.UTC().Format(time.RFC3339), p.in.Policy.Returned)
	case f.standing == deferred:
		return ReasonDeferred, f.RetryWhy
	}
	if f.preparing() && f.lane != nil && f.lane.unprepared {
		return ReasonPreparing, f.Job.Message
	}
	if refusal, ok := p.refused[f.lane]; ok {
		return refusal.reason, refusal.why
	}
	return ReasonUnavailable, f.wait().message
}

// outOfQuestion says why a node would not be upgraded whatever the rollout allows; ""
// when it would.
func (f *nodeFacts) outOfQuestion() (Reason, string) {
	switch {
	case f.standing == occupied && f.Job != nil:
		return ReasonNodeBusy, f.Job.Message
	case f.standing == ailing:
		return ReasonUnavailable, f.wait().message
	case f.standing == leftOut:
		return ReasonLeftOut, "the upgrade is limited to other nodes or components"
	case f.standing == withheld:
		return ReasonNodeHeld, daemonset.HoldWords(f.Holds, f.Name)
	case f.standing == unasked:
		return ReasonAwaitingRequest, "strategy OTA: the node is upgraded when its node agent is asked to"
	}
	return "", ""
}

// State is that of a node that waits for a reason: pending when it waits for
// room or for its own pods, held when it waits for a person or by policy.
func (r Reason) State() State {
	switch r {
	case ReasonBudgetExhausted, ReasonPoolExhausted, ReasonQueued, ReasonUnavailable, ReasonPreparing, ReasonNodeBusy, ReasonDeferred:
		return Pending
	}
	return Held
}

// byPeople reports whether nodes that wait for this reason wait for a person.
func (r Reason) byPeople() bool {
	switch r {
	case ReasonBlocked, ReasonPaused, ReasonHalted, ReasonAwaitingRequest, ReasonAwaitingApproval, ReasonLeftOut, ReasonNodeHeld:
		return true
	}
	return false
}

// countWaiting sums up why nodes wait, the most common reason first: each group
// of nodes that are alike is asked once.
func (p *planner) countWaiting() []Waiting {
	var w waitingList
	left := p.fleet.all.by
	inLanes := map[*lane]int{}
	for _, n := range p.fleet.marked {
		if n.slot != nil || n.failure != nil || n.queued {
			left[n.standing]--
			inLanes[n.lane]++
		}
		if n.queued && n.slot == nil && n.failure == nil && n.standing > away {
			w.add(p, 1, n)
		}
	}
	for s := ailing; s < candidate; s++ {
		w.add(p, left[s], p.example(s))
	}
	p.fleet.lanes.Ascend(func(l *lane) bool {
		w.add(p, l.nodes.Len()-inLanes[l], l.waiting())
		return true
	})
	slices.SortStableFunc(w, func(a, b Waiting) int {
		if a.Nodes != b.Nodes {
			return b.Nodes - a.Nodes
		}
		return strings.Compare(string(a.Reason), string(b.Reason))
	})
	return w
}

// waitingList has one element per reason.
type waitingList []Waiting

// add counts n nodes like one of them.
func (w *waitingList) add(p *planner, n int, like *nodeFacts) {
	if n == 0 {
		return
	}
	reason, message := p.whyNot(like)
	for i := range *w {
		if (*w)[i].Reason == reason {
			(*w)[i].Nodes += n
			return
		}
	}
	*w = append(*w, Waiting{Reason: reason, State: reason.State(), Message: message, Nodes: n})
}

// example returns a node of a standing that is not in a lane, for its words.
func (p *planner) example(s standing) *nodeFacts {
	like := &nodeFacts{frame: &p.fleet.frame, standing: s}
	if tree := p.fleet.listed[s]; tree != nil {
		tree.Ascend(func(n *nodeFacts) bool {
			like = n
			return n.slot != nil || n.failure != nil || n.queued
		})
	}
	return like
}

// countStates sums up the states of all nodes.
func (p *planner) countStates(waiting []Waiting) Counts {
	c := Counts{Total: p.fleet.Len(), Updated: p.fleet.all.by[finished], Skipped: p.fleet.all.by[away]}
	for _, n := range p.fleet.marked {
		switch {
		case n.slot != nil:
			c.InFlight++
		case n.failure != nil:
			c.Failed++
		default:
			continue
		}
		switch n.standing {
		case finished:
			c.Updated--
		case away:
			c.Skipped--
		}
	}
	for _, w := range waiting {
		if w.State == Held {
			c.Held += w.Nodes
		} else {
			c.Pending += w.Nodes
		}
	}
	return c
}
