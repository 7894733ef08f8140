package main

import (
	"testing"
)

// TestCluster starts a real cluster and tests its features. Each step depends on the
// previous ones.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane; not run with -short")
	}
	tc := build(t)
	if unchanged(t, tc) {
		return
	}
	first := tc.up(t, "first", "--nodes", "5", "--zones", "2",
		"--pod-ready-delay", "500ms", "--pod-ready-jitter", "500ms", "--node-monitor-grace-period", "8s")

	steps := []struct {
		name string
		run  func(*testing.T, *running)
	}{
		{"makes all nodes Ready, labeled and spread over zones", checkNodes},
		{"refuses a second cluster in the same directory", checkSecondUp},
		{"makes the pods of a DaemonSet Ready on every node", checkDaemonSet},
		{"keeps a condition that others set on a pod", checkCustomCondition},
		{"takes a pod's delay from its annotations", checkAnnotatedDelay},
		{"completes a Job, and keeps pods of a bad version unready", checkBehaviors},
		{"gives a ServiceAccount its own kubeconfig", checkAccount},
		{"rejects node-off for a node that does not exist", checkUnknownNode},
		{"takes a node offline: NotReady, pods not Ready, a deletion hangs", checkNodeOff},
		{"brings the node back: the deletion completes, pods are Ready", checkNodeOn},
		{"runs a second cluster side by side", checkSideBySide},
		{"reports a dead component", checkDeadComponent},
		{"is removed without leaving a process or a file", checkDown},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, first) }) {
			t.Fatalf("the following steps depend on this one; logs of the cluster:\n%s", first.logs(t))
		}
	}
}
