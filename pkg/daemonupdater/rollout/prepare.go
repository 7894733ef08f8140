package rollout

import (
	"slices"
	"time"
)

// preparation creates operations for the nodes that come next, enough that one is always ready
// when a slot becomes free, and has images pulled on those that need no operation (pull.go).
type preparation struct {
	*roundRobin
	now time.Time
	// ahead are the nodes that are prepared or being prepared, pulling counts those that pull the
	// images of an operation.
	ahead    []*fleetNode
	pulling  int
	changes  []OperationChange
	prepulls []Prepull
	// lasts is whether images cannot be pulled for long.
	lasts bool
}

// maxPulling bounds the nodes that pull the images of operations at the same time.
const maxPulling = 20

// prepare orders operations, or images, for candidates that have none prepared.
func prepare(r *roundRobin, now time.Time) *preparation {
	p := &preparation{roundRobin: r, now: now}
	p.countAhead()
	p.retry()
	for _, c := range r.unprepared {
		room := p.roomFor(c.lane)
		full, _ := r.budgets.refuse(c.lane)
		c.nodes.Ascend(func(n *fleetNode) bool {
			if room <= 0 || c.heavy && p.pulling >= maxPulling {
				return false
			}
			if n.isStartable() && p.order(n, full) {
				p.ahead = append(p.ahead, n)
				room--
				if c.heavy {
					p.pulling++
				}
			}
			return true
		})
	}
	return p
}

// roomFor returns on how many more nodes of a lane something is ordered.
func (p *preparation) roomFor(l *lane) int {
	room := p.budgets.limit
	for _, n := range p.ahead {
		if p.goesBefore(n, l) {
			room--
		}
	}
	switch {
	case l.heavy:
		return room
	case p.fleet.isImageDoubtful():
		return 0
	}
	return room - p.readyBefore(l, room)
}

// order orders what a node needs before it starts; full is why its budget has no room, "" if it has. It
// reports whether anything was missing.
func (p *preparation) order(n *fleetNode, full Reason) bool {
	if !n.heavy {
		return n.pull == PullWanted && p.ask(n)
	}
	others := n.Job.isOfAnotherGroup()
	if others && full != "" {
		return false // two groups without room would replace each other's operations for good
	}
	if n.Job != nil && !others && (!n.Job.awaitsGrant() || !n.group.isStale(&n.Node)) {
		return false
	}
	change := OperationChange{Node: n.Name, UID: n.UID, Operation: p.newOperation(n)}
	if n.Job != nil {
		change.Instead = n.Job.ID
	}
	p.changes = append(p.changes, change)
	return true
}

func (p *preparation) countAhead() {
	for _, n := range p.fleet.preparing {
		if n.group.isStale(&n.Node) {
			continue
		}
		if !n.Job.Stalled {
			p.ahead = append(p.ahead, n)
		}
		if !n.Job.Prepared {
			p.pulling++
		}
	}
	for _, n := range p.fleet.asked {
		p.ahead = append(p.ahead, n)
	}
}

// goesBefore reports whether a node that is prepared, or will be, competes for the next slot that
// nodes of a lane could get. One that cannot start when they can must not keep them from being
// prepared: otherwise none would be ready.
func (p *preparation) goesBefore(n *fleetNode, l *lane) bool {
	return n.lane != nil && n.isStartable() && p.competes(n.lane, l)
}

// competes reports whether nodes of a lane can get a slot that those of another could.
func (p *preparation) competes(other, l *lane) bool {
	if other.urgency == healthy && l.urgency != healthy {
		return false
	}
	if reason, _ := p.gate.hold(other); reason != "" {
		return false
	}
	return other.pool == l.pool || p.refused[other].reason != ReasonPoolExhausted
}

// ask has the images pulled that a node lacks, if there are any to ask for now.
func (p *preparation) ask(n *fleetNode) bool {
	var members []int
	for i := range n.Pods {
		if pod := &n.Pods[i]; lacksImages(n.group, &n.Node, pod) && pod.Pull.IsDue(p.now) {
			members = append(members, pod.Member)
		}
	}
	if len(members) > 0 {
		p.prepulls = append(p.prepulls, Prepull{n.Name, members})
	}
	return len(members) > 0
}

// retry has the images pulled again that could not be pulled, where a node could start if they were there.
func (p *preparation) retry() {
	p.fleet.byPhase[phasePrepullFailed].Ascend(func(n *fleetNode) bool {
		p.lasts = p.lasts || slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.Pull.State == PullFailed && pod.Pull.Attempts >= lasting })
		l := n.candidateLane()
		if !n.isStartable() || p.gate.isClosedTo(&l) {
			return true
		}
		if reason, _ := p.gate.hold(&l); reason == "" {
			p.ask(n)
		}
		return true
	})
}

// readyBefore counts the nodes that start without an operation before those of a lane, or with them, up to most: their
// images are there, or are not pulled first.
func (p *preparation) readyBefore(l *lane, most int) (count int) {
	p.fleet.lanes.Ascend(func(c candidates) bool {
		if c.unprepared || c.heavy || !p.competes(c.lane, l) {
			return true
		}
		if c.priority.compare(l.priority) > 0 {
			return false
		}
		c.nodes.Ascend(func(n *fleetNode) bool {
			if n.isStartable() {
				count++
			}
			return count < most
		})
		return count < most
	})
	return count
}
