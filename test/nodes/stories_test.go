package nodes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/need"
)

const (
	// groupTime is what the stories of a group may take.
	groupTime = 40 * time.Minute
	// clusters is how many run at the same time.
	clusters = 2
)

// story is one of those that are told on one cluster, one after the other: each finds the
// cluster as the one before leaves it, with the gr and with a training on all cards.
type story struct {
	name string
	tell func(*stage)
	// beside is told at the same time, about another node; nil for none.
	beside *story
}

// group is stories with a cluster of their own.
type group struct {
	name    string
	long    bool
	stories []story
}

var groups = []group{
	{"nodes", false, []story{
		{"a restart of docker ends the agent that asked for it, which goes on; containerd is restarted under its kubelet and its pods", (*stage).runtimeRestarts, nil},
		{"nodes that lose power in the middle of the tasks that matter come back and go on", (*stage).powerLoss, nil},
		{"a node whose disk is full is left alone until there is room", (*stage).fullDisk, &story{
			"a node whose kubelet is short of disk keeps what makes it a GCU node", (*stage).diskPressure, nil}},
	}},
	{"upgrades", false, []story{
		{"a gr with a driver runs: its cards are offered, labelled and measured", (*stage).grWithDriver, nil},
		{"a driver that cuts its node off is rolled back before it reaches another", (*stage).cuttingDriver, nil},
		{"a driver is replaced under a training, when the budget of that allows it; in the middle of a drain a node is cut off, and the manager killed", (*stage).driverUnderTraining, nil},
		{"a person at a node upgrades it with curl", (*stage).overTheAir, nil},
		{"gr and operator go without a trace", (*stage).uninstall, nil},
	}},
	{"power", true, []story{
		{"nodes that lose power in the middle of any task come back and go on", (*stage).powerLossEverywhere, nil},
		{"nothing is left of this story", (*stage).cleared, nil},
	}},
	{"drivers", true, []story{
		{"a driver that fails stops at the first node, and is rolled back", (*stage).failingDriver, nil},
		{"a driver that never gets ready stops at the first node, and is rolled back", (*stage).driverNeverReady, nil},
		{"a driver that hangs stops at the first node, until a person rolls out one that works", (*stage).hangingDriver, nil},
		{"a disk that fills in the middle of an operation halts that until there is room", (*stage).diskFillsInTheMiddle, nil},
		{"nothing is left of these stories", (*stage).cleared, nil},
	}},
	{"runtimes", true, []story{
		{"a restart of docker with live-restore ends no container", (*stage).liveRestore, nil},
		{"docker that does not come back is told of, and repaired", (*stage).brokenDocker, nil},
		{"nothing is left of these stories", (*stage).cleared, nil},
	}},
	{"users", true, []story{
		{"the default gr comes to 5/5 and goes without a trace", (*stage).defaultResource, nil},
		{"a person at a node upgrades and deletes the gr with the lines of the guide", (*stage).restAPI, nil},
	}},
}

// TestStories tells the stories, on several clusters at the same time. They begin in
// their order, which t.Parallel does not keep.
func TestStories(t *testing.T) {
	needRealNodes(t)
	var told sync.WaitGroup
	places := make(chan struct{}, clusters)
	for _, g := range groups {
		if g.long && !need.Long() {
			t.Logf("make long tells the stories of %s", g.name)
			continue
		}
		places <- struct{}{}
		told.Go(func() {
			defer func() { <-places }()
			t.Run(g.name, func(t *testing.T) { tellStories(t, g.stories) })
		})
	}
	told.Wait()
}

func tellStories(t *testing.T, list []story) {
	ctx, cancel := context.WithTimeout(interrupted, groupTime)
	defer cancel()
	cluster := startCluster(ctx, t)
	(&stage{cluster, t, ctx}).install()
	tell := func(s story) bool {
		return t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			s.tell(&stage{cluster, t, ctx})
		})
	}
	for _, s := range list {
		var told sync.WaitGroup
		if s.beside != nil {
			told.Go(func() { tell(*s.beside) })
		}
		tell(s)
		told.Wait()
		if t.Failed() {
			return // the stage is not as the next one needs it
		}
	}
}
