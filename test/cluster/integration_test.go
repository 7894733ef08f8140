package main

import (
	"testing"
)

// TestCluster brings a real cluster up and walks through what it can do. The
// steps build on each other.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane; not run with -short")
	}
	tc := build(t)
	first := tc.up(t, "first", "--nodes", "5", "--zones", "2",
		"--pod-ready-delay", "500ms", "--pod-ready-jitter", "500ms", "--node-monitor-grace-period", "8s")

	steps := []struct {
		name string
		run  func(*testing.T, *running)
	}{
		{"makes all nodes Ready, labelled and spread over zones", checkNodes},
		{"refuses a second cluster in the same directory", checkSecondUp},
		{"makes the pods of a DaemonSet Ready on every node", checkDaemonSet},
		{"keeps a condition that others set on a pod", checkCustomCondition},
		{"takes a pod's delay from its annotations", checkAnnotatedDelay},
		{"completes a Job and holds pods of a bad version back", checkBehaviours},
		{"gives a ServiceAccount its own kubeconfig", checkAccount},
		{"refuses to lose a node that does not exist", checkUnknownNode},
		{"loses a node: NotReady, pods not Ready, a deletion hangs", checkNodeOff},
		{"brings the node back: the deletion completes, pods are Ready", checkNodeOn},
		{"runs a second cluster side by side", checkSideBySide},
		{"tells of a dead component", checkDeadComponent},
		{"goes down without leaving a process or a file", checkDown},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, first) }) {
			t.Fatalf("the following steps need this one; logs of the cluster:\n%s", first.logs(t))
		}
	}
}
