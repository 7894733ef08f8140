package report

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// memberWith returns a member at the newest revision, with these pods.
func memberWith(ds *appsv1.DaemonSet, pods ...*corev1.Pod) memberAndPods {
	return memberAndPods{observed.Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash)}, pods}
}

type memberAndPods struct {
	observed.Member
	pods []*corev1.Pod
}

// seen is what was read of a group.
type seen struct {
	members  []memberAndPods
	nodes    []*corev1.Node
	upgrades []*topsv1.NodeUpgrade
	policy   *topsv1.UpgradePolicy
}

// world is the state of a group, and its nodes as the plan and the reports see them.
type world struct {
	*observed.State
	fleet *rollout.Fleet
	nodes *Nodes
}

// worldOf returns a world of members on nodes, with an empty DaemonRollout.
func worldOf(members []memberAndPods, nodes ...*corev1.Node) *world {
	return seen{members: members, nodes: nodes}.observe()
}

func (s seen) observe() *world {
	w := &world{State: &observed.State{Group: observed.GroupOf(s.members[0].DaemonSet), Rollout: &topsv1.DaemonRollout{}, Policy: s.policy}}
	var pods [][]*corev1.Pod
	for _, m := range s.members {
		w.Members = append(w.Members, m.Member)
		pods = append(pods, m.pods)
	}
	in := inputFrom(w)
	w.fleet, w.nodes = rollout.NewFleet(&in), NewNodes()
	for name := range observed.SetNodes(w.State, fixture.Values(s.nodes), fixture.Values(s.upgrades), pods) {
		w.nodes.Set(w.State, name, in.Now)
		if w.Nodes[name] == nil {
			continue
		}
		if node := w.RolloutNode(name, in.Revision, observed.Zones{}, in.Now); len(node.Pods) > 0 {
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
