// Package simseeds plays the seeds of a simulation: a fixed number of them, which
// are the same in every run, then fresh ones for a while, side by side on all CPUs.
// A seed plays the same every time, so that whoever reads of a failure can play it
// again with the command that is printed with it.
//
// What is played is said in the environment, where make puts what it is given (as
// in make sim SEED=7 OF=node):
//
//	SEED   plays only this seed, and prints its history
//	SEEDS  is the number of fixed seeds, 1 to SEEDS
//	FRESH  is for how long fresh seeds are played after those, as in 9s; 0 is not at all
//	OF     plays only the simulation of this name
package simseeds

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Names of all simulations, which OF accepts.
var Names = []string{"rollouts", "rollbacks", "operations", "node"}

// freshTime is the share of each simulation in 45 s of fresh seeds.
var freshTime = 45 * time.Second / time.Duration(len(Names))

const (
	fixedSeeds = 400
	// freshBase is above all seeds that are fixed, and freshBases many are drawn from:
	// they stay short enough to be typed.
	freshBase, freshBases = 1_000_000, 1_000_000_000
	// shownLines of a history end the report of a failure.
	shownLines = 60
)

// Simulation is played by its seeds.
type Simulation struct {
	// Name is one of Names.
	Name string
	// Short is the number of fixed seeds with go test -short, which has no fresh ones.
	Short int
	// Play plays one seed, the same every time.
	Play func(t *testing.T, seed uint64) Run
	// Reaches is what 100 seeds have to reach together, as Run.Reached counts it.
	Reaches []string
}

// Run is what came of a seed.
type Run struct {
	// Violation is what did not hold, "" when everything did.
	Violation string
	// History is what happened, line by line; the end of it is printed of a seed that fails.
	History []string
	// Steps is how many steps of the simulation were played.
	Steps int
	// Reached counts what happened and is rare.
	Reached map[string]int
}

// Test plays the seeds that the environment asks for.
func (s Simulation) Test(t *testing.T) {
	t.Helper()
	o, err := optionsOf(os.Getenv, s, testing.Short())
	switch {
	case err != nil:
		t.Fatal(err)
	case o.of != "" && o.of != s.Name:
		t.Skipf("only the simulation of %s is played", o.of)
	case o.seed != 0:
		run := s.play(t, o.seed)
		fmt.Println(strings.Join(run.History, "\n"))
		if run.Violation != "" {
			t.Errorf("seed %d: %s", o.seed, run.Violation)
		}
		return
	}
	q := &queue{fixed: o.fixed, base: freshBase + rand.Uint64N(freshBases), fresh: o.fresh, now: time.Now, reached: map[string]int{}}
	// Short-lived garbage is most of what a simulation makes: it is collected more rarely.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	fmt.Printf("simulation of %s: %d fixed seeds, then for %s fresh ones from %d\n", s.Name, o.fixed, o.fresh, q.base)
	s.playAll(t, q)
	if t.Failed() {
		return
	}
	for _, what := range s.Reaches {
		if q.played >= 100 && q.reached[what] == 0 {
			t.Errorf("%d seeds of the simulation of %s never reach: %s", q.played, s.Name, what)
		}
	}
	fmt.Printf("simulation of %s: %d seeds, %d of them fresh, %d steps, reached %v, 0 violations\n",
		s.Name, q.played, max(0, q.played-o.fixed), q.steps, q.reached)
}

// playAll plays the seeds of a queue on all CPUs until one fails.
func (s Simulation) playAll(t *testing.T, q *queue) {
	t.Run("seeds", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
				t.Parallel()
				for seed, ok := q.next(); ok; seed, ok = q.next() {
					run := s.play(t, seed)
					if q.add(run); run.Violation != "" {
						tail := run.History[max(0, len(run.History)-shownLines):]
						t.Errorf("seed %d: %s\n%s plays it again; it ends with\n%s", seed, run.Violation, s.command(seed), strings.Join(tail, "\n"))
					}
				}
			})
		}
	})
}

// play plays a seed, and says which it was when that does not return.
func (s Simulation) play(t *testing.T, seed uint64) Run {
	returned := false
	defer func() {
		if !returned {
			fmt.Printf("seed %d does not come to its end: %s\n", seed, s.command(seed))
		}
	}()
	run := s.Play(t, seed)
	returned = true
	return run
}

func (s Simulation) command(seed uint64) string {
	return fmt.Sprintf("make sim SEED=%d OF=%s", seed, s.Name)
}

// options say what is played.
type options struct {
	seed  uint64 // 0: all
	fixed int
	fresh time.Duration
	of    string
}

// optionsOf reads the environment.
func optionsOf(getenv func(string) string, s Simulation, short bool) (options, error) {
	o := options{fixed: fixedSeeds, fresh: freshTime, of: getenv("OF")}
	if short {
		o.fixed, o.fresh = s.Short, 0
	}
	for _, name := range []string{s.Name, o.of} {
		if name != "" && !slices.Contains(Names, name) {
			return o, fmt.Errorf("no simulation is named %q: there are %s", name, strings.Join(Names, ", "))
		}
	}
	var err error
	if text := getenv("SEED"); text != "" {
		if o.seed, err = strconv.ParseUint(text, 10, 64); err != nil || o.seed == 0 {
			return o, fmt.Errorf("SEED=%s is no seed: set it to a whole number of at least 1", text)
		}
	}
	if text := getenv("SEEDS"); text != "" {
		if o.fixed, err = strconv.Atoi(text); err != nil || o.fixed < 0 {
			return o, fmt.Errorf("SEEDS=%s is no number of seeds", text)
		}
	}
	if text := getenv("FRESH"); text != "" {
		if o.fresh, err = time.ParseDuration(text); err != nil || o.fresh < 0 {
			return o, fmt.Errorf("FRESH=%s is no duration: set it to one such as 9s", text)
		}
	}
	return o, nil
}

// queue hands out seeds, and adds up what came of them. All shards share it.
type queue struct {
	fixed int
	base  uint64 // the first fresh seed
	fresh time.Duration
	now   func() time.Time

	mu      sync.Mutex
	given   int
	until   time.Time // of fresh seeds, from the first one on
	failed  bool
	played  int
	steps   int
	reached map[string]int
}

// next returns the next seed, false when there is none.
func (q *queue) next() (uint64, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed {
		return 0, false
	}
	q.given++
	if q.given <= q.fixed {
		return uint64(q.given), true
	}
	now := q.now()
	if q.until.IsZero() {
		q.until = now.Add(q.fresh)
	}
	return q.base + uint64(q.given-q.fixed-1), now.Before(q.until)
}

// add adds what came of a seed. After one that failed there is no next.
func (q *queue) add(run Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.played++
	q.steps += run.Steps
	q.failed = q.failed || run.Violation != ""
	for what, n := range run.Reached {
		q.reached[what] += n
	}
	if q.played%10_000 == 0 {
		fmt.Printf("%d seeds are played\n", q.played)
	}
}
