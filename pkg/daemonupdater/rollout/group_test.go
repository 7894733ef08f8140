package rollout

import (
	"testing"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

func TestANodeHasRecoveredOnceItIsSeen(t *testing.T) {
	n := &Node{facts: facts{updated: true}}
	if n.hasRecovered() {
		t.Error("a node that is offline has recovered")
	}
	if n.Ready = true; !n.hasRecovered() {
		t.Error("a Ready node at the target has not recovered")
	}
}

func TestWhatAGroupReplaces(t *testing.T) {
	in := inputOf(1)
	in.Members = []Member{{Key: "kube-system/driver", Target: newHash, Heavy: true}}
	of := func(change func(*Input)) *group {
		other := in
		change(&other)
		g := groupOf(&other)
		return &g
	}
	outdated := nodeOf("a", oldHash)
	pod := &outdated.Pods[0]
	usual := of(func(*Input) {})
	if !usual.wants(&outdated, pod) || !usual.needsOperation(&outdated, pod) {
		t.Error("an outdated driver is not replaced by an operation")
	}
	if of(func(in *Input) { in.Settings.Strategy = RestartsOnly }).wants(&outdated, pod) {
		t.Error("without a strategy an outdated pod is replaced")
	}
	aside := *pod
	aside.Placeholder = true
	if usual.needsOperation(&outdated, &aside) {
		t.Error("a node is emptied to replace a pod that runs nothing")
	}
	if in.Settings.Strategy != daemonset.AdvancedRollingUpdate {
		t.Errorf("strategy %q", in.Settings.Strategy)
	}
}
