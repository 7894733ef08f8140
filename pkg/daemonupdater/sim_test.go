package daemonupdater

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/klog/v2"
)

var (
	simSeeds = flag.Int("sim.seeds", 2000, "number of seeds TestSimulation runs")
	simSeed  = flag.Uint64("sim.seed", 0, "run only this seed and print what happens")
	simAllOf = flag.Bool("sim.all", false, "go on after a violation and print one line for each")
)

// simShards is how many seeds run at once.
const simShards = 2

// TestSimulation plays whole rollouts: the production Reconciler against the
// model of a cluster (sim_world_test.go). A seed is one cluster with its own
// disturbances, and the same every time.
func TestSimulation(t *testing.T) {
	if testing.Short() {
		*simSeeds = min(*simSeeds, 20)
	}
	klog.SetOutput(io.Discard)
	if *simSeed != 0 {
		w := playSeed(t, *simSeed)
		fmt.Println(strings.Join(w.history, "\n"))
		reportSeed(t, w)
		return
	}
	var steps atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for shard := range simShards {
			t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
				t.Parallel()
				for seed := 1 + shard; seed <= *simSeeds && (*simAllOf || !t.Failed()); seed += simShards {
					w := playSeed(t, uint64(seed))
					reportSeed(t, w)
					steps.Add(int64(w.steps))
				}
			})
		}
	})
	if !t.Failed() {
		fmt.Fprintf(os.Stdout, "simulation: %d seeds, %d steps, 0 violations\n", *simSeeds, steps.Load())
	}
}

// TestSimulationFoundCases replays seeds that found a defect once, each named
// by what must hold.
func TestSimulationFoundCases(t *testing.T) {
	klog.SetOutput(io.Discard)
	tests := []struct {
		name string
		seed uint64
	}{
		{"a node in flight keeps its slot when its group turns to OTA", 100},
		{"a node lost in flight keeps its slot when its group turns to OTA, and the cache is behind", 104},
		{"a node whose new pod is outdated again keeps its slot under OTA until that pod is available", 1249},
		{"a slot that names a pod is not given back by a manager that sees the pod before it was deleted", 696},
		{"a deletion that comes late finds no pod when its slot names another one", 580},
		{"a deletion that comes late finds no pod when the group was released", 2291},
		{"a node does not start in a window that closes before the time that the one took which is done just now", 330},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { reportSeed(t, playSeed(t, tt.seed)) })
	}
}

// reportSeed fails the test when the invariants did not hold.
func reportSeed(t *testing.T, w *simWorld) {
	t.Helper()
	switch {
	case len(w.violations) == 0:
	case *simAllOf:
		t.Errorf("seed %d: %s", w.seed, w.violations[0])
	default:
		tail := w.history[max(0, len(w.history)-40):]
		of := ""
		if w.ops != nil {
			of = " OF=Operations"
		}
		t.Errorf("seed %d: %s\nmake sim SEED=%d%s reprints it; it ends with\n%s", w.seed, w.violations[0], w.seed, of, strings.Join(tail, "\n"))
	}
}

// playSeed plays a seed; one in a hundred is a golden run, which is played again
// with a crash after each of its writes.
func playSeed(t *testing.T, seed uint64) *simWorld {
	if seed%100 != 50 {
		return play(t, seed, (*simWorld).chaos)
	}
	golden := play(t, seed, (*simWorld).golden)
	steps := golden.steps
	for k := 1; k <= golden.writes && len(golden.violations) == 0; k++ {
		w := play(t, seed, func(w *simWorld) {
			w.crashAfter = k
			w.golden()
		})
		if len(w.violations) > 0 {
			return w
		}
		steps += w.steps
	}
	golden.steps = steps
	return golden
}

func play(t *testing.T, seed uint64, story func(*simWorld)) *simWorld {
	w := newSimWorld(seed)
	synctest.Test(t, func(*testing.T) {
		story(w)
		w.end()
	})
	return w
}
