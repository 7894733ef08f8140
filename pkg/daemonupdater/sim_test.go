package daemonupdater

import (
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"k8s.io/klog/v2"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simseeds"
)

// TestSimulation plays whole rollouts: the production Reconciler against the
// model of a cluster (sim_world_test.go). A seed is one cluster with its own
// disturbances, and the same every time.
func TestSimulation(t *testing.T) {
	klog.SetOutput(io.Discard)
	simseeds.Simulation{Name: "rollouts", Short: 25, Play: killedInBetween((*simWorld).chaos, (*simWorld).golden)}.Test(t)
}

// TestSimulationOfRollbacks plays rollouts under a policy with failure.action
// Rollback, with all disturbances; at the end a bad version has to be rolled back.
func TestSimulationOfRollbacks(t *testing.T) {
	klog.SetOutput(io.Discard)
	simseeds.Simulation{Name: "rollbacks", Short: 20, Reaches: []string{rolledBack}, Play: func(t *testing.T, seed uint64) simseeds.Run {
		return play(t, seed, (*simWorld).rollbacks).run()
	}}.Test(t)
}

// TestSimulationOfOperations plays rollouts of grs whose drivers and toolkits are
// replaced by operations: the Reconciler, that of NodeUpgrades, the worker of each
// node agent, and a model of what is on the nodes. Managers die in the middle of plans, and the
// next one follows the plan: its order and barriers, and no more than it has.
//
// Contract 93 and 96.
func TestSimulationOfOperations(t *testing.T) {
	klog.SetOutput(io.Discard)
	reaches := []string{rolledBack, partOfWave, pulledAhead, notPulledAhead, string(topsv1.OperationDone), string(topsv1.OperationFailed), string(topsv1.OperationDeferred),
		string(topsv1.OperationAborted), string(topsv1.OperationQuarantined)}
	simseeds.Simulation{Name: "operations", Short: 38, Reaches: reaches, Play: killedInBetween((*simWorld).operations, (*simWorld).goldenOperations)}.Test(t)
}

// TestSimulationOfTheGate plays the same stories with the gate, while pods die by themselves all the
// time, and persons and policies bring nodes back alone: it checks S15 and S17.
func TestSimulationOfTheGate(t *testing.T) {
	klog.SetOutput(io.Discard)
	stories := []func(*testing.T, uint64) simseeds.Run{
		killedInBetween(gated((*simWorld).chaos), gated((*simWorld).golden)),
		func(t *testing.T, seed uint64) simseeds.Run { return play(t, seed, gated((*simWorld).rollbacks)).run() },
		killedInBetween(gated((*simWorld).operations), gated((*simWorld).goldenOperations)),
	}
	simseeds.Simulation{Name: "gate", Short: 12, Reaches: []string{rolledBack, heldAtGate, restoredAtGate, keptByPin, backByOperation}, Play: func(t *testing.T, seed uint64) simseeds.Run {
		return stories[seed%3](t, seed)
	}}.Test(t)
}

// Of the gate: how many pods were held there, how many were restored in place of one, and how many of these because
// their node was pinned.
const heldAtGate, restoredAtGate, keptByPin, backByOperation = "held at the gate", "restored at the gate", "kept by a pin", "back by an operation"

// partOfWave is reached when the nodes that a plan has in one wave are done.
const partOfWave = "part of a wave"

// Of the images of light changes: how often they were pulled before the pod was deleted, and how often that failed.
const pulledAhead, notPulledAhead = "pulled ahead", "not pulled ahead"

// diedInPlan counts how often a manager died while nodes were in flight by a plan.
const diedInPlan = "died in a plan"

// rolledBack is reached when a manager went back to an earlier version.
const rolledBack = "rolled back"

// killedInBetween plays a story, but in every fifth seed a golden one without faults,
// twice: the second time the manager is killed after one of its writes.
func killedInBetween(story, golden func(*simWorld)) func(*testing.T, uint64) simseeds.Run {
	return func(t *testing.T, seed uint64) simseeds.Run {
		if seed%5 != 0 {
			return play(t, seed, story).run()
		}
		w := play(t, seed, golden)
		if w.writes == 0 || w.failed() {
			return w.run()
		}
		kill := 1 + rand.New(rand.NewPCG(seed, 3)).IntN(w.writes)
		return play(t, seed, func(w *simWorld) {
			w.crashAfter = kill
			golden(w)
		}).run()
	}
}

func play(t *testing.T, seed uint64, story func(*simWorld)) *simWorld {
	w := newSimWorld(seed)
	synctest.Test(t, func(*testing.T) {
		story(w)
		w.end()
	})
	return w
}

// run is what came of a world.
func (w *simWorld) run() simseeds.Run {
	run := simseeds.Run{History: w.history, Steps: w.steps, Reached: map[string]int{rolledBack: w.undone, diedInPlan: w.plansCut, heldAtGate: w.held, restoredAtGate: w.back, keptByPin: w.backAlones, backByOperation: w.backByOperation, partOfWave: w.partsOfWaves}}
	if w.failed() {
		run.Violation = w.violations[0]
	}
	maps.Copy(run.Reached, w.ahead)
	if w.ops != nil {
		run.Reached[simForgotten] = w.forgotten
		for phase, n := range w.ops.ends {
			run.Reached[string(phase)] = n
		}
	}
	return run
}
