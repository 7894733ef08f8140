package deletion

import "time"

// Deletions are paced by how fast the API server answers: one that is busy, perhaps too busy to
// renew the Leases of nodes, is asked less at once.
const (
	mostAtOnce = 16
	// slow is how long an answer takes when fewer are asked for at once.
	slow = time.Second
)

// Pace is how many requests are made at once. The zero value is the full pace.
type Pace struct{ less int }

// AtOnce returns how many requests to make at once.
func (p *Pace) AtOnce() int { return mostAtOnce - p.less }

// Took records how long a number of requests took: the pace is halved when answers are slow, and
// rises step by step when they are not.
func (p *Pace) Took(requests int, elapsed time.Duration) {
	if requests == 0 {
		return
	}
	now := p.AtOnce()
	rounds := (requests + now - 1) / now
	if elapsed > time.Duration(rounds)*slow {
		p.less = mostAtOnce - max(1, now/2)
	} else {
		p.less = max(0, p.less-1)
	}
}
