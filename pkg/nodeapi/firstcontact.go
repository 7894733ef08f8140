package nodeapi

import (
	"hash/fnv"
	"time"
)

// FirstContact is how long the agent of a node waits before it goes to the API server by
// itself: up to spread, the same for the same node, spread evenly over nodes. So agents
// that start all at once, as after an upgrade of the agent or a loss of power, do not
// come all at once. 0 or less spreads nothing.
func FirstContact(node string, spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // never fails
	mixed := h.Sum64()
	mixed ^= mixed >> 33 // names differ in their last characters
	mixed *= 0xff51afd7ed558ccd
	mixed ^= mixed >> 33
	return time.Duration(mixed % uint64(spread))
}
