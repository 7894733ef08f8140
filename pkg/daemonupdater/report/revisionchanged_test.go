package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// askingFor adds a request of the node for its pod at a revision; running: its task says that the
// node was started for it.
func askingFor(revision string, running bool, n rollout.Node) rollout.Node {
	n = asking(n)
	n.Pods[0].Request.Revision, n.Pods[0].RequestRuns = revision, running
	return n
}

// naming gives node a a slot that names its pod.
func naming(in *rollout.Input) {
	holding("a")(in)
	in.Ledger.Slots[0].Pod, in.Ledger.Slots[0].PodVersion, in.Ledger.Slots[0].Members = types.UID("pod-a"), "1", []string{"kube-system/driver"}
}

func TestARequestForAnotherRevisionIsAnsweredUnlessItsNodeWasStarted(t *testing.T) {
	const asksAgain = "Failed RevisionChanged: revision earlier was requested, but new is the newest now: repeat the request"
	waiting, running := fixture.TaskIn("1", topsv1.TaskWaiting), fixture.TaskIn("1", topsv1.TaskRunning)
	outdated := func() rollout.Node { return askingFor("earlier", false, fixture.Planned("a", fixture.OldHash)) }
	started := func() rollout.Node { return askingFor("earlier", true, fixture.Planned("a", fixture.OldHash)) }
	named := outdated()
	named.Pods[0].Version = "1"
	leaving := outdated()
	leaving.Pods[0].Terminating, leaving.Pods[0].Available = true, false
	both := outdated()
	both.Pods = append(both.Pods, rollout.Pod{Member: 1, Name: "p-b", UID: "pod-b", Revision: fixture.OldHash, Available: true,
		Request: &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: "pod-b"}, Revision: fixture.NewHash, RequestTime: fixture.Ago(0)}})
	besides := otaInput(both)
	besides.Members = append(besides.Members, rollout.Member{Key: "kube-system/exporter", Target: fixture.NewHash})
	unknown := change(otaInput(outdated()), blockedInput("RevisionPending"))
	unknown.Members[0].Target = ""
	for _, tt := range []struct {
		name      string
		in        rollout.Input
		shown     []topsv1.UpgradeTask
		withdrawn bool
		want      string
	}{
		{"at once", otaInput(outdated()), nil, false, asksAgain},
		{"when it has waited", otaInput(outdated()), []topsv1.UpgradeTask{waiting}, false, asksAgain},
		{"while its node is offline", otaInput(askingFor("earlier", false, fixture.PlannedOffline("a", fixture.OldHash))), nil, false, asksAgain},
		{"when its node gave its slot back", otaInput(started()), []topsv1.UpgradeTask{running}, false, asksAgain},
		{"not when its node is in flight for it", change(otaInput(started()), holding("a")), []topsv1.UpgradeTask{running}, false,
			"Running Replacing: replacing pod p-a of kube-system/driver"},
		{"when its node is in flight for other pods", besides, []topsv1.UpgradeTask{waiting}, false, asksAgain},
		{"not while a slot names its pod, which may be deleted", change(otaInput(named), naming), nil, false,
			"Running Replacing: replacing pod p-a of kube-system/driver"},
		{"not when its pod is on its way", otaInput(leaving), nil, false, "Running Unavailable: waiting for pod p-a of kube-system/driver to terminate"},
		{"not when its pod was replaced", otaInput(successor(outdated())), nil, false, "Done Replaced: pod p-a was replaced by p-a2"},
		{"not when it was withdrawn", otaInput(outdated()), nil, true, "Withdrawn Withdrawn: the request was withdrawn on the node before the node was touched"},
		{"not while the newest is unknown", unknown, nil, false, "Waiting Blocked: because of RevisionPending"},
		{"not when nodes start by themselves", change(inputWith(outdated()), pausedInput), nil, false, "Waiting Paused: the rollout is paused"},
		{"while the rollout is paused", change(otaInput(outdated()), pausedInput), nil, false, asksAgain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := asked("1")
			request.Revision, request.Withdrawn = "earlier", tt.withdrawn
			upgrade := fixture.NodeUpgrade("a", request)
			upgrade.Status.Tasks = tt.shown
			tasks, _ := requestResultsOf(tt.in).Tasks(upgrade)
			if len(tasks) != 1 {
				t.Fatalf("tasks %+v, want one", tasks)
			}
			if diff := cmp.Diff(tt.want, string(tasks[0].State)+" "+tasks[0].Reason+": "+tasks[0].Message); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARequestForTheNewestRevisionOrForNoneWaitsAsEver(t *testing.T) {
	for _, revision := range []string{"", fixture.NewHash} {
		request := asked("1")
		request.Revision = revision
		in := change(otaInput(askingFor(revision, false, fixture.Planned("a", fixture.OldHash))), pausedInput)
		in.Settings.Strategy = daemonset.OTA
		tasks, _ := requestResultsOf(in).Tasks(fixture.NodeUpgrade("a", request))
		if len(tasks) != 1 || tasks[0].State != topsv1.TaskWaiting {
			t.Errorf("revision %q: tasks %+v, want one that waits", revision, tasks)
		}
	}
}

func TestAChangedRevisionIsConfirmedBeforeItIsReported(t *testing.T) {
	request := asked("1")
	request.Revision = "earlier"
	upgrade := fixture.NodeUpgrade("a", request)
	tasks, _ := requestResultsOf(otaInput(askingFor("earlier", false, fixture.Planned("a", fixture.OldHash)))).Tasks(upgrade)
	if replaced, byTarget := NewlyFinal(upgrade, tasks); len(replaced) != 0 || len(byTarget) != 1 {
		t.Errorf("replaced %v, by target %v, want only one by target", replaced, byTarget)
	}
}
