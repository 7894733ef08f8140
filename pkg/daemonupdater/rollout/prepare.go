package rollout

import (
	"slices"
	"time"
)

// preparation creates operations for the nodes that come next, enough that one is always ready
// when a slot becomes free, and requests image pulls on those that need no operation (pull.go).
type preparation struct {
	*roundRobin
	now time.Time
	// ahead are the nodes that are prepared or being prepared. pulling counts the nodes that pull the
	// images of an operation.
	ahead    []*Node
	pulling  int
	changes  []OperationChange
	prepulls []Prepull
	// keepsFailing: on some node, pulling images has failed many times.
	keepsFailing bool
}

// maxPulling bounds how many nodes pull the images of operations at the same time.
const maxPulling = 20

// prepare requests operations, or images, for candidates that have none prepared.
func prepare(r *roundRobin, now time.Time) *preparation {
	p := &preparation{roundRobin: r, now: now}
	p.countAhead()
	p.retry()
	for _, c := range r.unprepared {
		room := p.roomFor(c.lane)
		full, _ := r.budgets.whyFull(c.lane)
		c.nodes.Ascend(func(n *Node) bool {
			if room <= 0 || c.heavy && p.pulling >= maxPulling {
				return false
			}
			if n.isStartable() && p.request(n, full) {
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

// roomFor returns how many more nodes of a lane may be prepared.
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

// request requests what a node needs before it starts. full is why its budget has no room, "" if it has. It
// reports whether it requested anything.
func (p *preparation) request(n *Node, full Reason) bool {
	if !n.heavy {
		return n.pull == PullNeeded && p.requestPull(n)
	}
	others := n.Operation.isOfAnotherGroup()
	if others && full != "" {
		return false // two groups without room would replace each other's operations forever
	}
	if n.Operation != nil && !others && (!n.Operation.awaitsGrant() || !n.group.isStale(n)) {
		return false
	}
	change := OperationChange{Node: n.Name, UID: n.UID, Operation: p.newOperation(n)}
	if n.Operation != nil {
		change.Instead = n.Operation.ID
	}
	p.changes = append(p.changes, change)
	return true
}

func (p *preparation) countAhead() {
	for _, n := range p.fleet.preparing {
		if n.group.isStale(n) {
			continue
		}
		if !n.Operation.Stalled {
			p.ahead = append(p.ahead, n)
		}
		if !n.Operation.Prepared {
			p.pulling++
		}
	}
	for _, n := range p.fleet.requestedPulls {
		p.ahead = append(p.ahead, n)
	}
}

// goesBefore reports whether a node that is prepared, or will be, competes for the next slot that
// nodes of a lane could get. A node that cannot start when they can must not keep them from being
// prepared: otherwise no node would be ready.
func (p *preparation) goesBefore(n *Node, l *lane) bool {
	return n.lane != nil && n.isStartable() && p.competes(n.lane, l)
}

// competes reports whether nodes of another lane can get a slot that nodes of a lane could get.
func (p *preparation) competes(other, l *lane) bool {
	if other.urgency == healthy && l.urgency != healthy {
		return false
	}
	if reason, _ := p.rules.whyHeld(other); reason != "" {
		return false
	}
	return other.pool == l.pool || p.refused[other].reason != ReasonPoolExhausted
}

// requestPull requests the pull of images that a node lacks. It reports whether there were any to request now.
func (p *preparation) requestPull(n *Node) bool {
	var members []int
	for i := range n.Pods {
		if pod := &n.Pods[i]; lacksImages(n.group, n, pod) && pod.Pull.IsDue(p.now) {
			members = append(members, pod.Member)
		}
	}
	if len(members) > 0 {
		p.prepulls = append(p.prepulls, Prepull{n.Name, members})
	}
	return len(members) > 0
}

// retry requests failed pulls again on nodes that could start if they had the images.
func (p *preparation) retry() {
	p.fleet.byPhase[phasePrepullFailed].Ascend(func(n *Node) bool {
		p.keepsFailing = p.keepsFailing || slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.Pull.State == PullFailed && pod.Pull.Attempts >= manyAttempts })
		l := n.candidateLane()
		if !n.isStartable() || p.rules.forbids(&l) {
			return true
		}
		if reason, _ := p.rules.whyHeld(&l); reason == "" {
			p.requestPull(n)
		}
		return true
	})
}

// readyBefore counts, up to limit, the nodes without an operation that start before those of a lane or together with
// them: their images are there, or are not pulled first.
func (p *preparation) readyBefore(l *lane, limit int) (count int) {
	p.fleet.lanes.Ascend(func(c candidates) bool {
		if c.unprepared || c.heavy || !p.competes(c.lane, l) {
			return true
		}
		if c.priority.compare(l.priority) > 0 {
			return false
		}
		c.nodes.Ascend(func(n *Node) bool {
			if n.isStartable() {
				count++
			}
			return count < limit
		})
		return count < limit
	})
	return count
}
