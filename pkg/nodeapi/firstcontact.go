package nodeapi

import (
	"hash/fnv"
	"time"
)

// FirstContact returns how long the agent of a node waits before its first call to the API
// server: from 0 to spread, fixed per node, evenly distributed over nodes. So agents that
// start together, as after an upgrade of the agent or a power failure, do not all call at
// once. With a spread of 0 or less it returns 0.
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
