package nodes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/need"
)

const (
	// groupTime is the time limit of a group.
	groupTime = 40 * time.Minute
	// clusters is the number of clusters that run at the same time.
	clusters = 2
)

// story is one of several stories that run in sequence on one cluster: each starts in the
// state that the previous one left, with the gr and with training on all cards.
type story struct {
	name string
	tell func(*stage)
	// beside runs at the same time on another node; nil for none.
	beside *story
}

// group is a list of stories that share a cluster.
type group struct {
	name    string
	long    bool
	stories []story
}

var groups = []group{
	{"nodes", false, []story{
		{"the first deployment restarts docker, which kills the agent that requests it; a restart of containerd that is left to the administrator is waited for", (*stage).firstRestarts, nil},
		{"a POST to the agent of a node upgrades its driver and toolkit under training, the restart of docker kills the agent, which resumes, and the cards are used again; elsewhere containerd is restarted under its kubelet and its pods", (*stage).runtimeRestarts, nil},
		{"nodes that lose power during the most relevant tasks resume after boot", (*stage).powerLoss, nil},
		{"a node whose disk is full is not upgraded until there is space", (*stage).fullDisk, &story{
			"a node under disk pressure keeps its GCU components", (*stage).diskPressure, nil}},
		{"a driver is renamed under training pods, one node at a time; pods of another DaemonSet leave only behind the taint, and come back", (*stage).driverIsRenamed, nil},
	}},
	{"upgrades", false, []story{
		{"a gr with a driver runs: its cards are offered, labeled and measured", (*stage).grWithDriver, nil},
		{"a driver that cuts its node's network is rolled back before it reaches another node", (*stage).cuttingDriver, nil},
		{"a driver is replaced under training pods once their PodDisruptionBudget allows it; a node goes offline during its drain, and the manager is killed", (*stage).driverUnderTraining, nil},
		{"contract 100: a person at a node upgrades it with curl", (*stage).otaUpgrade, nil},
		{"contract 85: gr and operator are removed completely", (*stage).uninstall, nil},
	}},
	{"power", true, []story{
		{"nodes that lose power during any task resume after boot", (*stage).powerLossEverywhere, nil},
		{"nothing is left of this story", (*stage).cleared, nil},
	}},
	{"drivers", true, []story{
		{"a failing driver stops at the first node and is rolled back", (*stage).failingDriver, nil},
		{"a driver that never becomes ready stops at the first node and is rolled back", (*stage).driverNeverReady, nil},
		{"a hanging driver stops at the first node until a person rolls out a working one", (*stage).hangingDriver, nil},
		{"a disk that fills up during an operation stops it until there is space", (*stage).diskFillsInTheMiddle, nil},
		{"nothing is left of these stories", (*stage).cleared, nil},
	}},
	{"runtimes", true, []story{
		{"a restart of docker with live-restore kills no container", (*stage).liveRestore, nil},
		{"docker that fails to restart is reported, and repaired", (*stage).brokenDocker, nil},
		{"nothing is left of these stories", (*stage).cleared, nil},
	}},
	{"gate", true, []story{
		{"driver pods that are deleted by hand come back as they were, on a paused, a held and an upgraded node, also while the manager is killed", (*stage).gatedHold, nil},
		{"contract 96: one node goes back to the driver before, alone, by kubectl gcu and by the person at it, and gets the newest again", (*stage).gatedUndo, nil},
		{"a driver pod under OTA comes back as it was, and a node that joins again gets the version before", (*stage).gatedOTA, nil},
		{"driver pods come back as they were while a rollout is halted", (*stage).gatedHalt, nil},
		{"a pod that a kubelet under disk pressure evicts comes back as it was", (*stage).gatedEviction, nil},
		{"nothing is left of these stories", (*stage).cleared, nil},
	}},
	{"users", true, []story{
		{"the default gr becomes 5/5 and is removed completely", (*stage).defaultResource, nil},
		{"a person at a node upgrades and deletes the gr with the commands of the guide", (*stage).restAPI, nil},
	}},
}

// TestStories runs the groups on several clusters in parallel. They start in order, which
// t.Parallel does not guarantee.
func TestStories(t *testing.T) {
	needRealNodes(t)
	var told sync.WaitGroup
	places := make(chan struct{}, clusters)
	for _, g := range groups {
		if g.long && !need.Long() {
			t.Logf("make long runs the stories of %s", g.name)
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
			return // the next story needs the state that this one leaves
		}
	}
}
