package rollout

import (
	"cmp"
	"time"

	"github.com/google/btree"
)

// lane is a queue of candidates that are alike in all that decides whether one
// may start: when one of a lane may not, none may.
type lane struct {
	laneKey
	nodes *btree.BTreeG[*nodeFacts]
}

// laneKey is what the candidates of a lane have in common. Lanes of one class
// are served in turn, so that starts are spread over zones and pools.
type laneKey struct {
	class
	zone, pool string
	// timeZone of the nodes for the maintenance window, nil for the policy's;
	// zoneError says what is wrong with the one they name.
	timeZone  *time.Location
	zoneError string
	// heavy: the nodes need an operation, which is not prepared yet if unprepared.
	heavy, unprepared bool
}

// class is what comes before the turns of lanes in the order of starts.
type class struct {
	need need
	wave int
	role int
}

// need is how urgently a node needs its new pods: what is broken goes first.
type need int

const (
	// underway: a pod is moving already, so that the node is in flight by live facts.
	underway need = iota
	// failing: a pod is not available.
	failing
	healthy
)

func newLane(key laneKey) *lane {
	return &lane{key, btree.NewG(degree, func(a, b *nodeFacts) bool { return a.compareHash(b) < 0 })}
}

func (l *lane) add(n *nodeFacts) {
	l.nodes.ReplaceOrInsert(n)
	n.lane = l
}

func (l *lane) remove(n *nodeFacts) {
	l.nodes.Delete(n)
	n.lane = nil
}

// waiting returns the first node that waits in the lane, one of all alike; nil when
// there is none.
func (l *lane) waiting() (first *nodeFacts) {
	l.nodes.Ascend(func(n *nodeFacts) bool {
		if n.slot == nil && n.failure == nil && !n.queued {
			first = n
		}
		return first == nil
	})
	return first
}

// after returns the first startable node behind another, nil when there is none.
// A nil node is before all.
func (l *lane) after(last *nodeFacts) (next *nodeFacts) {
	look := func(n *nodeFacts) bool {
		if n != last && n.startable() {
			next = n
		}
		return next == nil
	}
	if last == nil {
		l.nodes.Ascend(look)
	} else {
		l.nodes.AscendGreaterOrEqual(last, look)
	}
	return next
}

func (l *lane) compare(other *lane) int {
	return cmp.Or(l.class.compare(other.class), cmp.Compare(l.zone, other.zone), cmp.Compare(l.pool, other.pool),
		cmp.Compare(l.timeZoneName(), other.timeZoneName()), cmp.Compare(l.zoneError, other.zoneError),
		cmp.Compare(l.weight(), other.weight()))
}

// weight is in order of what is still to be done before a node can be started.
func (l *lane) weight() int {
	switch {
	case l.unprepared:
		return 2
	case l.heavy:
		return 1
	}
	return 0
}

func (l *lane) timeZoneName() string {
	if l.timeZone == nil {
		return ""
	}
	return l.timeZone.String()
}

func (c class) compare(other class) int {
	return cmp.Or(cmp.Compare(c.need, other.need), cmp.Compare(c.wave, other.wave), cmp.Compare(c.role, other.role))
}

// laneKey is the key of the lane a candidate belongs to.
func (f *nodeFacts) laneKey() laneKey {
	return laneKey{
		class: class{need: f.need(), wave: f.wave, role: f.role()},
		zone:  f.Zone, pool: f.Pool, timeZone: f.TimeZone, zoneError: f.ZoneError, heavy: f.heavy, unprepared: f.unprepared(),
	}
}

func (f *nodeFacts) need() need {
	switch {
	case f.movingNow():
		return underway
	case f.unavailableNow():
		return failing
	}
	return healthy
}

// role is the place of a node in the order by the policy: lower is earlier.
func (f *nodeFacts) role() int {
	switch {
	case f.Home:
		return 2
	case !f.ControlPlane || f.frame.policy.ControlPlane == ControlPlaneAny:
		return 0
	case f.frame.policy.ControlPlane == ControlPlaneFirst:
		return -1
	}
	return 1
}
