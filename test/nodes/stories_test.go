package nodes

import (
	"context"
	"sync"
	"testing"
	"time"
)

// storyTime is what one story may take.
const storyTime = 10 * time.Minute

// story is one of those that are told on one cluster, one after the other. Each leaves
// the cluster as it was. Those about drivers leave the gr and the training to the next.
type story struct {
	name string
	tell func(*stage)
}

// groups of stories, each told on a cluster of its own: those that take the longest first.
var groups = []struct {
	name    string
	stories []story
}{
	{"power", []story{
		{"nodes that lose power in the middle of any task of a driver upgrade come back and go on", (*stage).driverPowerLoss},
		{"the same in the middle of what only the upgrade of a toolkit does, a restart of the runtime among it", (*stage).toolkitPowerLoss},
	}},
	{"drivers", []story{
		{"a driver is replaced under a running training, when its budget is relaxed; it comes back when the cards do", (*stage).driverUnderTraining},
		{"a driver that fails stops at the first node, and is rolled back", (*stage).failingDriver},
		{"a driver that never gets ready stops at the first node, and is rolled back", (*stage).driverNeverReady},
		{"a driver that cuts its node off is rolled back before it reaches another", (*stage).cuttingDriver},
		{"a driver that hangs stops at the first node, until a person rolls out one that works", (*stage).hangingDriver},
		{"nothing is left of these stories", (*stage).cleared},
	}},
	{"users", []story{
		{"the default gr comes to 5/5 and goes without a trace", (*stage).defaultResource},
		{"a node that is cut off is skipped, and upgraded when it is back", (*stage).cutOffNode},
		{"a person at a node upgrades it with curl", (*stage).overTheAir},
		{"a person upgrades with kubectl gcu, and is told what happens", (*stage).withPlugin},
		{"a person at a node upgrades and deletes the gr with the lines of the guide", (*stage).restAPI},
		{"the operator is uninstalled and leaves nothing", (*stage).uninstall},
	}},
	{"failures", []story{
		{"a node that is cut off during its drain keeps its slot and goes on", (*stage).cutDuringDrain},
		{"a manager that is killed during a drain goes on and evicts nobody twice", (*stage).managerKilled},
	}},
	{"disks", []story{
		{"a node whose disk is full is left alone until there is room", (*stage).fullDisk},
		{"a node whose kubelet is short of disk keeps what makes it a GCU node", (*stage).diskPressure},
	}},
	{"runtimes", []story{
		{"a restart of docker ends the agent that asked for it, which comes back and goes on", (*stage).dockerRestart},
		{"a restart of docker with live-restore ends no container", (*stage).liveRestore},
		{"docker that does not come back is told of, and repaired", (*stage).brokenDocker},
		{"containerd is restarted under its kubelet and its pods", (*stage).containerdRestart},
	}},
}

// clusters is how many run at the same time: a user has 128 inotify instances, and a
// cluster of real nodes needs about twenty.
const clusters = 4

// TestStories tells the stories, on several clusters at the same time. They begin in
// their order, which t.Parallel does not keep.
func TestStories(t *testing.T) {
	var told sync.WaitGroup
	places := make(chan struct{}, clusters)
	for _, g := range groups {
		places <- struct{}{}
		told.Go(func() {
			defer func() { <-places }()
			t.Run(g.name, func(t *testing.T) { tellStories(t, g.stories) })
		})
	}
	told.Wait()
}

func tellStories(t *testing.T, list []story) {
	ctx, cancel := context.WithTimeout(interrupted, 25*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	(&stage{cluster, t, ctx}).install()
	for _, s := range list {
		passed := t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(ctx, storyTime)
			defer cancel()
			s.tell(&stage{cluster, t, ctx})
		})
		if !passed {
			return // the stage is not as the next one needs it
		}
	}
}
