package simseeds

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain disables fresh seeds of TestSample unless they are requested.
func TestMain(m *testing.M) {
	if os.Getenv("FRESH") == "" {
		os.Setenv("FRESH", "0")
	}
	m.Run()
}

// TestSample runs a simulation that VIOLATED, PANICS and REACHED control.
func TestSample(t *testing.T) {
	Simulation{Name: "node", Short: 5, Reaches: []string{"a rare thing"}, Play: func(_ *testing.T, seed uint64) Run {
		run := Run{Steps: 2, Reached: map[string]int{"a rare thing": 1}, History: []string{"it begins", fmt.Sprint("seed ", seed, " is played")}}
		switch fmt.Sprint(seed) {
		case os.Getenv("VIOLATED"):
			run.Violation = "S1: two nodes are down"
		case os.Getenv("PANICS"):
			panic("nobody expects this")
		}
		if os.Getenv("REACHED") == "nothing" {
			run.Reached = nil
		}
		return run
	}}.Test(t)
}

// sample runs TestSample like go test, with an environment.
func sample(t *testing.T, environment ...string) (output string, passes bool) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-test.run=^TestSample$", "-test.v")
	command.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"SEED", "SEEDS", "FRESH", "OF"}, name)
	}), environment...)
	data, err := command.CombinedOutput()
	return string(data), err == nil
}

func TestAFailureIsPrintedWithTheCommandThatReproducesIt(t *testing.T) {
	tests := []struct {
		name        string
		environment []string
		passes      bool
		says        []string
	}{
		{"nothing fails", []string{"SEEDS=150", "FRESH=0"}, true,
			[]string{"150 fixed seeds, then for 0s fresh ones from ", "150 seeds, 0 of them fresh, 300 steps, reached map[a rare thing:150], 0 violations"}},
		{"a seed fails", []string{"SEEDS=20", "FRESH=0", "VIOLATED=7"}, false,
			[]string{"seed 7: S1: two nodes are down", "reproduce it with make sim SEED=7 OF=node", "it begins\n", "seed 7 is played"}},
		{"one seed is run with its history", []string{"SEED=7", "VIOLATED=7"}, false, []string{"it begins\nseed 7 is played", "seed 7: S1: two nodes are down"}},
		{"a seed that does not return", []string{"SEEDS=20", "FRESH=0", "PANICS=7"}, false, []string{"seed 7 did not finish, reproduce it with make sim SEED=7 OF=node", "nobody expects this"}},
		{"a required situation is not reached", []string{"SEEDS=100", "FRESH=0", "REACHED=nothing"}, false, []string{"100 seeds of the simulation of node never reach: a rare thing"}},
		{"another simulation is selected", []string{"OF=rollouts", "VIOLATED=7"}, true, []string{"only the simulation of rollouts is run"}},
		{"an unknown simulation", []string{"OF=nodes"}, false, []string{`no simulation is named "nodes": there are rollouts, `}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			output, passes := sample(t, tt.environment...)
			if passes != tt.passes {
				t.Errorf("passes: %v, want %v", passes, tt.passes)
			}
			for _, says := range tt.says {
				if !strings.Contains(output, says) {
					t.Errorf("does not say %q", says)
				}
			}
			if t.Failed() {
				t.Log(output)
			}
		})
	}
}

func TestOptionsOf(t *testing.T) {
	type environment map[string]string
	tests := []struct {
		name  string
		env   environment
		short bool
		want  options
		err   string
	}{
		{name: "400 fixed seeds, and fresh ones", want: options{fixed: 400, fresh: freshTime}},
		{name: "few and no fresh ones with -short", short: true, want: options{fixed: 20}},
		{name: "a given number, with -short too", env: environment{"SEEDS": "9", "FRESH": "1m"}, short: true, want: options{fixed: 9, fresh: time.Minute}},
		{name: "a range", env: environment{"SEEDS": "5-9", "FRESH": "0"}, want: options{after: 4, fixed: 9}},
		{name: "a range that ends before it starts", env: environment{"SEEDS": "9-5"}, err: "invalid SEEDS=9-5"},
		{name: "a range from 0", env: environment{"SEEDS": "0-5"}, err: "invalid SEEDS=0-5"},
		{name: "fresh ones only", env: environment{"SEEDS": "0"}, want: options{fresh: freshTime}},
		{name: "no fresh ones", env: environment{"FRESH": "0"}, want: options{fixed: 400}},
		{name: "one seed of one simulation", env: environment{"SEED": "104", "OF": "node"}, want: options{seed: 104, fixed: 400, fresh: freshTime, of: "node"}},
		{name: "seed 0 is invalid", env: environment{"SEED": "0"}, err: "invalid SEED=0"},
		{name: "a word is not a seed", env: environment{"SEED": "x"}, err: "invalid SEED=x"},
		{name: "a word is not a number", env: environment{"SEEDS": "many"}, err: "invalid SEEDS=many"},
		{name: "a number is not a duration", env: environment{"FRESH": "9"}, err: "invalid FRESH=9"},
		{name: "a negative duration is invalid", env: environment{"FRESH": "-9s"}, err: "invalid FRESH=-9s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := optionsOf(func(name string) string { return tt.env[name] }, Simulation{Name: "node", Short: 20}, tt.short)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{})); err == nil && diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEverySeedIsHandedOutOnce(t *testing.T) {
	var mu sync.Mutex
	now, times := time.Unix(0, 0), map[uint64]int{}
	q := &queue{given: 20, fixed: 50, base: 1000, fresh: 10 * time.Second, reached: map[string]int{}, now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}
	var shards sync.WaitGroup
	for range 4 {
		shards.Go(func() {
			for seed, ok := q.next(); ok; seed, ok = q.next() {
				mu.Lock()
				times[seed]++
				mu.Unlock()
			}
		})
	}
	shards.Wait()
	want := map[uint64]int{}
	for seed := uint64(21); seed <= 50; seed++ {
		want[seed] = 1
	}
	for seed := uint64(1000); seed < 1010; seed++ {
		want[seed] = 1
	}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("number of runs of each seed (-want +got):\n%s", diff)
	}
	q.add(Run{Violation: "S1"})
	q.fresh, q.until = time.Hour, time.Time{}
	if seed, ok := q.next(); ok {
		t.Errorf("seed %d is run after a failed one", seed)
	}
}
