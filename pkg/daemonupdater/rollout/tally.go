package rollout

// standing is where a node stands by its facts alone, without regard to slots
// and failures.
type standing int

const (
	// finished: nothing is left to do.
	finished standing = iota
	// away: something is left to do, and the node is offline.
	away
	// ailing: a pod is missing or not available, and none is outdated.
	ailing
	// withheld: something is left to do, and somebody wants it left alone.
	withheld
	// unasked: under OTA, outdated, and its person has not asked.
	unasked
	// leftOut: the upgrade is limited to something else.
	leftOut
	// resting: returned too recently to be started.
	resting
	// occupied: an operation of another group is at work on the node.
	occupied
	// deferred: the node is tried again later.
	deferred
	// candidate: may be started.
	candidate

	standings = int(candidate) + 1
)

// tally counts nodes by their facts.
type tally struct {
	nodes int
	// inFlight by live facts; uses count against a limit.
	inFlight, uses int
	// outside are those that the upgrade is limited to others than.
	outside int
	by      [standings]int
}

func (t *tally) add(n *nodeFacts, by int) {
	t.nodes += by
	t.by[n.standing] += by
	if n.LeftOut {
		t.outside += by
	}
	if n.movingNow() {
		t.inFlight += by
	}
	if n.unavailableNow() {
		t.uses += by
	}
}

// open counts the Ready nodes at which something is left to do that the upgrade is not
// limited to other nodes or components for.
func (t *tally) open() int { return t.nodes - t.by[finished] - t.by[away] - t.by[leftOut] }
