package observed

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// memberWith returns a member at the newest revision, with these pods.
func memberWith(ds *appsv1.DaemonSet, pods ...*corev1.Pod) memberAndPods {
	return memberAndPods{Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash)}, pods}
}

type memberAndPods struct {
	Member
	pods []*corev1.Pod
}

// seen is what was read of a group.
type seen struct {
	members  []memberAndPods
	nodes    []*corev1.Node
	upgrades []*topsv1.NodeUpgrade
	policy   *topsv1.UpgradePolicy
	plan     Plan
}

// world is the state of a group, and its nodes as the plan sees them.
type world struct {
	*State
	fleet *rollout.Fleet
}

// worldOf returns a world of members on nodes, with an empty DaemonRollout.
func worldOf(members []memberAndPods, nodes ...*corev1.Node) *world {
	return seen{members: members, nodes: nodes}.observe()
}

func (s seen) observe() *world {
	w := &world{State: &State{Group: GroupOf(s.members[0].DaemonSet), Rollout: &topsv1.DaemonRollout{}, Policy: s.policy, Plan: s.plan}}
	var pods [][]*corev1.Pod
	for _, m := range s.members {
		w.Members = append(w.Members, m.Member)
		pods = append(pods, m.pods)
	}
	in := inputFrom(w)
	w.fleet = rollout.NewFleet(&in)
	SetNodes(w.State, fixture.Values(s.nodes), fixture.Values(s.upgrades), pods)
	for name := range w.Nodes {
		if node := w.RolloutNode(name, in.Revision, Zones{}, in.Now); len(node.Pods) > 0 {
			w.fleet.Set(node, in.Now)
		}
	}
	return w
}

// testBook is the logic book of the tests.
var testBook = upgradeplan.DefaultBook()

func inputFrom(w *world) rollout.Input {
	return w.Input(&testBook, rollout.DefaultDeadlines, fixture.Epoch)
}

// toolkitAt returns the toolkit of the gr "fleet" with a pod on node a at a revision.
func toolkitAt(revision string) memberAndPods {
	ds := fixture.ComponentOf("toolkit")
	return memberWith(ds, fixture.PodOn(ds, "a", revision))
}
