package daemonupdater

import (
	"math/rand/v2"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// In a third of the seeds, clocks are wrong: those of hosts, by which kubelets and node agents
// write times, and that of the second manager. The world, the API server and the controllers of
// Kubernetes have the true time, and the checks are about it. Only what managers record and
// compare among themselves is checked by their own clocks: windows, the soak of waves, and, give
// or take a change of the leader's clock, deadlines.

// simMaxSkew is how far a clock is at most from the true time.
const simMaxSkew = 3 * time.Minute

// newSimSkews returns the generator of a seed's wrong clocks, nil for a seed without them.
func newSimSkews(seed uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed, 5))
	if rng.IntN(3) != 0 {
		return nil
	}
	return rng
}

// drawSkew draws how far a clock is ahead.
func (w *simWorld) drawSkew() time.Duration {
	if w.skews == nil {
		return 0
	}
	return time.Duration(w.skews.Int64N(int64(2*simMaxSkew))) - simMaxSkew
}

// changeOfClock is by how much the deadlines of a rollout may shift when the manager with the
// other clock leads.
func (w *simWorld) changeOfClock() time.Duration { return 2 * w.managers[1].skew.Abs() }

// readyFor returns for how long a node that a pass saw Ready had truly been so.
func (p *simPass) readyFor(node string) time.Duration {
	_, since := daemonset.NodeReady(p.seen.nodes[node])
	return p.at.Add(p.w.host(node).skew).Sub(since.Time)
}
