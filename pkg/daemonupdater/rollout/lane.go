package rollout

import (
	"cmp"
	"time"
)

// lane groups candidates by everything that decides whether they may start: if one node of a lane may
// not start, none may. Lanes of the same priority are served in turn, which spreads starts over
// zones and pools.
type lane struct {
	priority
	zone, pool string
	// timeZone of the nodes for the maintenance window, nil for the one of the policy. zoneError
	// says what is wrong with the zone that the nodes name.
	timeZone  *time.Location
	zoneError string
	// heavy: the nodes need an operation. unprepared: it is not prepared yet; of nodes that need none, the
	// images are not there.
	heavy, unprepared bool
	// goingBack: the nodes go back, regardless of a halt, waves and the window.
	goingBack bool
}

// refusal says why no more candidates of a lane start.
type refusal struct {
	reason Reason
	why    string
}

// priority orders starts: all lanes of one priority come before those of the next.
type priority struct {
	// denied: the API server denied the deletion of a pod, and may do so again. Such nodes come last, so
	// that their attempts do not delay others.
	denied  bool
	urgency urgency
	wave    int
	place   int
}

// urgency is how urgently a node needs its new pods: broken nodes go first.
type urgency int

const (
	// inFlightAlready: a pod is being replaced, so the node is in flight, even without a slot.
	inFlightAlready urgency = iota
	// unavailableAlready: a pod is not available.
	unavailableAlready
	healthy
)

func (l *lane) compare(other *lane) int {
	return cmp.Or(l.priority.compare(other.priority), cmp.Compare(l.zone, other.zone), cmp.Compare(l.pool, other.pool),
		cmp.Compare(l.timeZoneName(), other.timeZoneName()), cmp.Compare(l.zoneError, other.zoneError),
		cmp.Compare(l.stepsBeforeStart(), other.stepsBeforeStart()))
}

func (p priority) compare(other priority) int {
	return cmp.Or(cmp.Compare(p.lastResort(), other.lastResort()), cmp.Compare(p.urgency, other.urgency), cmp.Compare(p.wave, other.wave), cmp.Compare(p.place, other.place))
}

// lastResort orders denied candidates after all others.
func (p priority) lastResort() int {
	if p.denied {
		return 1
	}
	return 0
}

// stepsBeforeStart orders lanes by what is left to do before a node can start.
func (l *lane) stepsBeforeStart() int {
	steps := 0
	switch {
	case l.unprepared && l.heavy:
		steps = 3
	case l.unprepared:
		steps = 2
	case l.heavy:
		steps = 1
	}
	if !l.goingBack {
		steps += 4
	}
	return steps
}

func (l *lane) timeZoneName() string {
	if l.timeZone == nil {
		return ""
	}
	return l.timeZone.String()
}
