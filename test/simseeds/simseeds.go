// Package simseeds runs the seeds of a simulation: a fixed number of them, which are
// the same in every run, then fresh ones for a while, in parallel on all CPUs. A seed
// is deterministic, so that a failure can be reproduced with the command printed with
// it.
//
// The environment, to which make adds its arguments (as in make sim SEED=7 OF=node),
// selects the seeds:
//
//	SEED   runs only this seed, and prints its history
//	SEEDS  is the number of fixed seeds, 1 to SEEDS, or their range, as in 5001-20000
//	FRESH  is how long fresh seeds are run after those, as in 9s; 0 for none
//	OF     runs only the simulation with this name
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
var Names = []string{"rollouts", "rollbacks", "operations", "gate", "node", "stories", "specs"}

// freshTime is each simulation's share of 45 s of fresh seeds.
var freshTime = 45 * time.Second / time.Duration(len(Names))

const (
	fixedSeeds = 400
	// freshBase is above all fixed seeds. Fresh seeds start at a random one of freshBases
	// values; they are short enough to type.
	freshBase, freshBases = 1_000_000, 1_000_000_000
	// shownLines is how many last lines of its history the report of a failure shows.
	shownLines = 60
)

// Simulation is a deterministic simulation of a seed.
type Simulation struct {
	// Name is one of Names.
	Name string
	// Short is the number of fixed seeds with go test -short, which runs no fresh ones.
	Short int
	// Part divides the number of fixed seeds and the time for fresh ones, of a simulation with long
	// seeds; 0 means 1.
	Part int
	// Play runs one seed deterministically.
	Play func(t *testing.T, seed uint64) Run
	// Reaches are the keys of Run.Reached that 100 seeds together must reach.
	Reaches []string
}

// Run is the result of a seed.
type Run struct {
	// Violation is the violated rule, "" for none.
	Violation string
	// History is the log of the run; its end is printed if the seed fails.
	History []string
	// Steps is the number of simulation steps.
	Steps int
	// Reached counts rare situations.
	Reached map[string]int
}

// Test runs the seeds selected by the environment.
func (s Simulation) Test(t *testing.T) {
	t.Helper()
	o, err := optionsOf(os.Getenv, s, testing.Short())
	switch {
	case err != nil:
		t.Fatal(err)
	case o.of != "" && o.of != s.Name:
		t.Skipf("only the simulation of %s is run", o.of)
	case o.seed != 0:
		run := s.play(t, o.seed)
		fmt.Println(strings.Join(run.History, "\n"))
		if run.Violation != "" {
			t.Errorf("seed %d: %s", o.seed, run.Violation)
		}
		return
	}
	q := &queue{given: o.after, fixed: o.fixed, base: freshBase + rand.Uint64N(freshBases), fresh: o.fresh, now: time.Now, reached: map[string]int{}}
	// A simulation creates mostly short-lived garbage: collect it less often.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	fmt.Printf("simulation of %s: %d fixed seeds, then for %s fresh ones from %d\n", s.Name, o.fixed-o.after, o.fresh, q.base)
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
		s.Name, q.played, max(0, q.played-(o.fixed-o.after)), q.steps, q.reached)
}

// playAll runs the seeds of a queue on all CPUs until one fails.
func (s Simulation) playAll(t *testing.T, q *queue) {
	t.Run("seeds", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
				t.Parallel()
				for seed, ok := q.next(); ok; seed, ok = q.next() {
					run := s.play(t, seed)
					if q.add(run); run.Violation != "" {
						tail := run.History[max(0, len(run.History)-shownLines):]
						t.Errorf("a seed fails, its history ends with\n%s\nseed %d: %s\nreproduce it with %s", strings.Join(tail, "\n"), seed, run.Violation, s.command(seed))
					}
				}
			})
		}
	})
}

// play runs a seed, and prints it if the run panics.
func (s Simulation) play(t *testing.T, seed uint64) Run {
	returned := false
	defer func() {
		if !returned {
			fmt.Printf("seed %d did not finish, reproduce it with %s\n", seed, s.command(seed))
		}
	}()
	run := s.Play(t, seed)
	returned = true
	return run
}

func (s Simulation) command(seed uint64) string {
	return fmt.Sprintf("make sim SEED=%d OF=%s", seed, s.Name)
}

// options select the seeds to run.
type options struct {
	seed  uint64 // 0: all
	after int    // the first fixed seed is the one after this
	fixed int    // the last fixed seed
	fresh time.Duration
	of    string
}

// optionsOf reads the environment.
func optionsOf(getenv func(string) string, s Simulation, short bool) (options, error) {
	part := max(s.Part, 1)
	o := options{fixed: fixedSeeds / part, fresh: freshTime / time.Duration(part), of: getenv("OF")}
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
			return o, fmt.Errorf("invalid SEED=%s: must be a whole number of at least 1", text)
		}
	}
	if text := getenv("SEEDS"); text != "" {
		if o.after, o.fixed, err = seedRange(text); err != nil {
			return o, err
		}
	}
	if text := getenv("FRESH"); text != "" {
		if o.fresh, err = time.ParseDuration(text); err != nil || o.fresh < 0 {
			return o, fmt.Errorf("invalid FRESH=%s: must be a duration such as 9s", text)
		}
	}
	return o, nil
}

// seedRange parses SEEDS: "9" are the seeds 1 to 9, "5-9" the seeds 5 to 9. It returns the number
// before the first seed, and the last seed.
func seedRange(text string) (after, last int, err error) {
	first, end, isRange := strings.Cut(text, "-")
	if !isRange {
		first, end = "1", text
	}
	from, err := strconv.ParseUint(first, 10, 31)
	to, errTo := strconv.ParseUint(end, 10, 31)
	if err != nil || errTo != nil || from == 0 || isRange && from > to {
		return 0, 0, fmt.Errorf("invalid SEEDS=%s: must be a number of seeds such as 9, or a range such as 5-9", text)
	}
	return int(from) - 1, int(to), nil
}

// queue hands out seeds and adds up their results. All shards share it.
type queue struct {
	fixed int    // the last fixed seed
	base  uint64 // the first fresh seed
	fresh time.Duration
	now   func() time.Time

	mu      sync.Mutex
	given   int       // the last seed that was handed out, without fresh ones
	until   time.Time // end of the fresh seeds, set with the first one
	failed  bool
	played  int
	steps   int
	reached map[string]int
}

// next returns the next seed, false if there is none.
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

// add adds the result of a seed. After a failed seed, next returns false.
func (q *queue) add(run Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.played++
	q.steps += run.Steps
	q.failed = q.failed || run.Violation != ""
	for what, n := range run.Reached {
		q.reached[what] += n
	}
	if q.played%1000 == 0 {
		fmt.Printf("%d seeds were run\n", q.played)
	}
}
