package deletion

import "time"

// An API server that answers slowly, and is perhaps too busy to renew the Leases of nodes, gets fewer deletions
// at once.
const (
	maxConcurrency = 16
	// slowRequest is the average time of a request above which the limit is halved.
	slowRequest = time.Second
)

// Concurrency limits how many requests are made at once. The zero value allows maxConcurrency.
type Concurrency struct{ reduction int }

// Limit returns how many requests may be made at once.
func (c *Concurrency) Limit() int { return maxConcurrency - c.reduction }

// Observe records how long a number of requests took: slow ones halve the limit, others raise it by one.
func (c *Concurrency) Observe(requests int, elapsed time.Duration) {
	if requests == 0 {
		return
	}
	now := c.Limit()
	rounds := (requests + now - 1) / now
	if elapsed > time.Duration(rounds)*slowRequest {
		c.reduction = maxConcurrency - max(1, now/2)
	} else {
		c.reduction = max(0, c.reduction-1)
	}
}
