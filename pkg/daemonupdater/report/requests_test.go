package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// asked returns a request made a minute ago for pod-a of kube-system/driver.
func asked(id string) topsv1.UpgradeRequest {
	r := fixture.Request(id, fixture.DaemonSet("driver"), fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash))
	r.Pod.Name, r.Pod.UID = "p-a", "pod-a"
	return r
}

// otaInput is inputWith under OTA, without requests.
func otaInput(nodes ...rollout.Node) rollout.Input {
	return change(inputWith(nodes...), func(in *rollout.Input) { in.Settings.Strategy = daemonset.OTA })
}

// requestFor returns a request for a pod.
func requestFor(pod types.UID) *topsv1.UpgradeRequest {
	return &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: pod}, RequestTime: fixture.Ago(time.Minute)}
}

// asking adds a request of the node for its pod.
func asking(n rollout.Node) rollout.Node {
	n.Pods[0].Request = requestFor(n.Pods[0].UID)
	return n
}

// successor returns the node with another pod than the requested one.
func successor(n rollout.Node) rollout.Node {
	n.Pods[0].Name, n.Pods[0].UID = "p-a2", "pod-a2"
	return n
}

// outdatedBeside adds an outdated pod of a second member.
func outdatedBeside(n rollout.Node) rollout.Node {
	second := fixture.Planned(n.Name, fixture.OldHash).Pods[0]
	second.Member, second.Name, second.UID = 1, "q-a", "pod-q-a"
	n.Pods = append(n.Pods, second)
	return n
}

// askingToo adds a request of the node for its second pod.
func askingToo(n rollout.Node) rollout.Node {
	n.Pods[1].Request = requestFor(n.Pods[1].UID)
	return n
}

func requestResultsOf(in rollout.Input) *RequestResults {
	fleet := rollout.NewFleet(&in)
	d := fleet.Plan(in)
	return &RequestResults{State: worldOf([]memberAndPods{memberWith(fixture.DaemonSet("driver"))}).State, Fleet: fleet, Input: &in, Decision: &d}
}

func TestATaskFollowsItsRequest(t *testing.T) {
	stuck := asking(fixture.Planned("a", fixture.OldHash))
	stuck.Pods[0].Terminating, stuck.Pods[0].Available = true, false
	missing := fixture.Planned("a", fixture.OldHash)
	missing.Pods[0] = rollout.Pod{Request: requestFor("pod-a")}
	empty := fixture.Planned("a", fixture.OldHash)
	empty.Pods = nil
	// failed is a failure some time ago, with the latest request known then, by the node's clock.
	failed := func(since, requested time.Duration) func(*rollout.Input) {
		return func(in *rollout.Input) {
			failedNodes("a")(in)
			in.Ledger.Failures[0].Since, in.Ledger.Failures[0].Requested = fixture.Epoch.Add(-since), fixture.Epoch.Add(-requested)
		}
	}
	tests := []struct {
		name string
		in   rollout.Input
		want string
	}{
		{"waits for the budget", otaInput(asking(fixture.Planned("a", fixture.OldHash)), fixture.PlannedBroken("b", fixture.NewHash)),
			"Waiting BudgetExhausted: 1 of at most 1 nodes are unavailable"},
		{"waits while the rollout is paused", change(otaInput(asking(fixture.Planned("a", fixture.OldHash))), pausedInput), "Waiting Paused: the rollout is paused"},
		{"waits for its node to come back", otaInput(asking(fixture.PlannedOffline("a", fixture.OldHash))),
			"Waiting NodeOffline: the node was offline before it was touched; it is upgraded when it is Ready again"},
		{"waits while the settings are wrong", change(otaInput(fixture.Planned("a", fixture.OldHash)), func(in *rollout.Input) {
			blockedInput("InvalidPaused")(in)
			in.Settings = daemonset.Settings{}
		}), "Waiting Blocked: because of InvalidPaused"},
		{"runs as soon as its node has a slot", otaInput(asking(fixture.Planned("a", fixture.OldHash))), "Running Replacing: replacing pod p-a of kube-system/driver"},
		{"runs while the pod terminates", change(otaInput(stuck), holding("a")), "Running PodTerminating: waiting for pod p-a of kube-system/driver to terminate"},
		{"runs while the pod is missing", change(otaInput(missing), holding("a")), "Running AwaitingPod: waiting for the DaemonSet controller to create the pod of kube-system/driver"},
		{"runs when somebody else deleted the pod", otaInput(missing), "Running Unavailable: waiting for the DaemonSet controller to create the pod of kube-system/driver"},
		{"runs while a pod that somebody else deleted terminates", otaInput(stuck), "Running Unavailable: waiting for pod p-a of kube-system/driver to terminate"},
		{"runs until the successor is available", change(otaInput(successor(asking(fixture.PlannedBroken("a", fixture.NewHash)))), holding("a")),
			"Running AwaitingAvailable: waiting for pod p-a2 of kube-system/driver to be available"},
		{"is done when the successor is available", otaInput(successor(fixture.Planned("a", fixture.NewHash))), "Done Replaced: pod p-a was replaced by p-a2"},
		{"is done at once when the pod is already at the newest revision", otaInput(fixture.Planned("a", fixture.NewHash)), "Done AtTarget: pod p-a is already at the newest revision"},
		{"is done by a rollout as well", inputWith(successor(fixture.Planned("a", fixture.NewHash))), "Done Replaced: pod p-a was replaced by p-a2"},
		{"fails with its node", change(otaInput(successor(fixture.PlannedBroken("a", fixture.NewHash))), failed(0, time.Minute)), "Failed CrashLooping: it crash-loops"},
		{"does not fail with a failure from before it was asked", change(otaInput(fixture.PlannedBroken("a", fixture.OldHash)), failed(time.Hour, time.Hour)), "Waiting CrashLooping: it crash-loops"},
		{"fails though it was asked after the failure, if another component with work left failed",
			change(otaInput(outdatedBeside(fixture.PlannedBroken("a", fixture.OldHash))), func(in *rollout.Input) {
				failed(time.Hour, time.Hour)(in)
				in.Members = append(in.Members, rollout.Member{Key: "kube-system/exporter", Target: fixture.NewHash})
				in.Ledger.Failures[0].Targets = []rollout.Target{{Member: "kube-system/exporter", Revision: fixture.NewHash}}
			}), "Failed CrashLooping: it crash-loops"},
		{"waits beside a request for the component that failed",
			change(otaInput(askingToo(outdatedBeside(asking(fixture.Planned("a", fixture.OldHash)))), fixture.PlannedBroken("b", fixture.NewHash)), func(in *rollout.Input) {
				failed(time.Hour, time.Hour)(in)
				in.Members = append(in.Members, rollout.Member{Key: "kube-system/exporter", Target: fixture.NewHash})
				in.Ledger.Failures[0].Targets = []rollout.Target{{Member: "kube-system/exporter", Revision: fixture.NewHash}}
			}), "Waiting CrashLooping: it crash-loops"},
		{"fails with its node though the clock of the node is ahead", change(otaInput(successor(fixture.PlannedBroken("a", fixture.NewHash))), failed(3*time.Minute, time.Minute)),
			"Failed CrashLooping: it crash-loops"},
		{"does not fail with a failure from before it was asked though the clock of the node is behind",
			change(otaInput(fixture.PlannedBroken("a", fixture.OldHash)), failed(0, time.Hour)), "Waiting CrashLooping: it crash-loops"},
		{"waits, left out, though another component of its node awaits its own request", change(otaInput(outdatedBeside(asking(fixture.Planned("a", fixture.OldHash)))), func(in *rollout.Input) {
			in.Members[0].LeftOut = true
			in.Members = append(in.Members, rollout.Member{Key: "kube-system/exporter", Target: fixture.NewHash})
		}), "Waiting LeftOut: the upgrade is limited to other nodes or components"},
		{"fails when the DaemonSet has no strategy any more", change(inputWith(fixture.Planned("a", fixture.OldHash)), func(in *rollout.Input) { in.Settings = daemonset.Settings{} }),
			"Failed NotControlled: DaemonSet kube-system/driver no longer has an update strategy"},
		{"fails when the node does not run the group any more", otaInput(fixture.Planned("b", fixture.OldHash)), "Failed NotEligible: DaemonSet kube-system/driver no longer runs on this node"},
		{"fails when the node does not run this member any more", otaInput(empty), "Failed NotEligible: DaemonSet kube-system/driver no longer runs on this node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tasks, changed := requestResultsOf(tt.in).Tasks(fixture.NodeUpgrade("a", asked("1")))
			if len(tasks) != 1 || !changed {
				t.Fatalf("tasks = %+v, changed %v, want one new task", tasks, changed)
			}
			got := tasks[0]
			if diff := cmp.Diff(tt.want, string(got.State)+" "+got.Reason+": "+got.Message); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
			started, ended := got.StartTime != nil, got.EndTime != nil
			if started != (got.State != topsv1.TaskWaiting) || ended != got.State.Final() || got.RequestID != "1" || got.Name != "a_driver_replace" {
				t.Errorf("task %+v: a task that waits has no times, one that runs a start, a final one both", got)
			}
		})
	}
}

// By its time, a request of a node whose clock is ahead would be newer than any failure, and so asked for again and again.
func TestARequestThatRunsFailsWithItsNodeWhateverItsClock(t *testing.T) {
	in := change(otaInput(asking(fixture.PlannedBroken("a", fixture.OldHash))), func(in *rollout.Input) {
		failedNodes("a")(in)
		in.Ledger.Failures[0].Since, in.Ledger.Failures[0].Requested = fixture.Epoch.Add(-time.Minute), fixture.Epoch.Add(-time.Hour)
	})
	for shown, want := range map[topsv1.TaskState]topsv1.TaskState{topsv1.TaskRunning: topsv1.TaskFailed, topsv1.TaskWaiting: topsv1.TaskRunning} {
		request := asked("1")
		request.RequestTime = fixture.Ago(-3 * time.Hour)
		upgrade := fixture.NodeUpgrade("a", request)
		upgrade.Status.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("1", shown)}
		runs := shown == topsv1.TaskRunning
		in.Nodes[0].Pods[0].RequestRuns = runs
		tasks, _ := requestResultsOf(in).Tasks(upgrade)
		if len(tasks) != 1 || tasks[0].State != want {
			t.Errorf("a request that is %s becomes %+v, want %s", shown, tasks, want)
		}
	}
}

func TestAnswerKeepsAndDropsTasks(t *testing.T) {
	start := fixture.Ago(30 * time.Second)
	running := topsv1.UpgradeTask{RequestID: "1", Name: "a_driver_replace", State: topsv1.TaskRunning, Reason: "Replacing",
		Message: "replacing pod p-a of kube-system/driver", StartTime: &start}
	done := topsv1.UpgradeTask{RequestID: "1", Name: "a_driver_replace", State: topsv1.TaskDone, Reason: "Replaced", StartTime: &start, EndTime: &start}
	foreign, elsewhere, earlier := asked("other"), asked("other"), asked("1")
	foreign.DaemonSet.Name, foreign.DaemonSet.UID = "exporter", "uid-of-another-group"
	elsewhere.DaemonSet.Namespace, elsewhere.DaemonSet.UID = "apps", "uid-of-another-group"
	earlier.DaemonSet.UID = "uid-earlier"
	foreignTask := topsv1.UpgradeTask{RequestID: "other", Name: "a_exporter_replace", State: topsv1.TaskWaiting}
	now := metav1.NewTime(fixture.Epoch)
	begun, waiting := running, fixture.TaskIn("1", topsv1.TaskWaiting)
	begun.StartTime = &now
	orphaned := topsv1.UpgradeTask{RequestID: "1", Name: "a_driver_replace", State: topsv1.TaskFailed, Reason: "DaemonSetGone",
		Message: "DaemonSet kube-system/driver, which owned pod p-a, no longer exists", StartTime: &now, EndTime: &now}
	interrupted := orphaned
	interrupted.StartTime = &start
	ended := running
	ended.State, ended.Reason, ended.Message, ended.EndTime = topsv1.TaskDone, "Replaced", "pod p-a was replaced by p-a2", &now
	busy, finished := otaInput(asking(fixture.Planned("a", fixture.OldHash))), otaInput(successor(fixture.Planned("a", fixture.NewHash)))
	tests := []struct {
		name     string
		in       rollout.Input
		requests []topsv1.UpgradeRequest
		shown    []topsv1.UpgradeTask
		want     []topsv1.UpgradeTask
		changed  bool
	}{
		{"nothing is asked and nothing is answered", busy, nil, nil, nil, false},
		{"a task that is right already is not written", busy, []topsv1.UpgradeRequest{asked("1")}, []topsv1.UpgradeTask{running}, []topsv1.UpgradeTask{running}, false},
		{"a task that ends keeps its start", finished, []topsv1.UpgradeRequest{asked("1")}, []topsv1.UpgradeTask{running}, []topsv1.UpgradeTask{ended}, true},
		{"a task that ended stays as it ended", busy, []topsv1.UpgradeRequest{asked("1")}, []topsv1.UpgradeTask{done}, []topsv1.UpgradeTask{done}, false},
		{"a task whose request is gone is dropped", busy, nil, []topsv1.UpgradeTask{running, done}, nil, true},
		{"a request of another group is left to it", busy, []topsv1.UpgradeRequest{foreign}, nil, nil, false},
		{"the task of another group's request is kept as it is", busy, []topsv1.UpgradeRequest{foreign, asked("1")}, []topsv1.UpgradeTask{foreignTask},
			[]topsv1.UpgradeTask{foreignTask, begun}, true},
		{"a request of a DaemonSet of this name elsewhere is left alone", busy, []topsv1.UpgradeRequest{elsewhere}, nil, nil, false},
		{"the task of such a request is kept as it is", busy, []topsv1.UpgradeRequest{elsewhere}, []topsv1.UpgradeTask{foreignTask}, []topsv1.UpgradeTask{foreignTask}, false},
		{"a request for the DaemonSet that had the name before fails", busy, []topsv1.UpgradeRequest{earlier}, nil, []topsv1.UpgradeTask{orphaned}, true},
		{"one that waits fails, too", busy, []topsv1.UpgradeRequest{earlier}, []topsv1.UpgradeTask{waiting}, []topsv1.UpgradeTask{orphaned}, true},
		{"one that runs fails and keeps its start", busy, []topsv1.UpgradeRequest{earlier}, []topsv1.UpgradeTask{running}, []topsv1.UpgradeTask{interrupted}, true},
		{"one that failed already is not written again", busy, []topsv1.UpgradeRequest{earlier}, []topsv1.UpgradeTask{interrupted}, []topsv1.UpgradeTask{interrupted}, false},
		{"one that ended stays as it ended", busy, []topsv1.UpgradeRequest{earlier}, []topsv1.UpgradeTask{done}, []topsv1.UpgradeTask{done}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := fixture.NodeUpgrade("a", tt.requests...)
			upgrade.Status.Tasks = tt.shown
			tasks, changed := requestResultsOf(tt.in).Tasks(upgrade)
			if diff := cmp.Diff(tt.want, tasks, cmpopts.EquateEmpty()); diff != "" || changed != tt.changed {
				t.Errorf("changed = %v, want %v; tasks (-want +got):\n%s", changed, tt.changed, diff)
			}
		})
	}
}

func TestOrphansAnswersRequestsWithoutAGroup(t *testing.T) {
	now := metav1.NewTime(fixture.Epoch)
	gone := observed.GroupOf(fixture.DaemonSet("driver"))
	failed := topsv1.UpgradeTask{RequestID: "1", Name: "a_driver_replace", State: topsv1.TaskFailed, Reason: "DaemonSetGone",
		Message: "DaemonSet kube-system/driver, which owned pod p-a, no longer exists", StartTime: &now, EndTime: &now}
	done := fixture.TaskIn("1", topsv1.TaskDone)
	elsewhere, other := asked("1"), asked("1")
	elsewhere.DaemonSet.Namespace, other.DaemonSet.Name = "apps", "exporter"
	start := fixture.Ago(30 * time.Second)
	waiting, running, interrupted := fixture.TaskIn("1", topsv1.TaskWaiting), fixture.TaskIn("1", topsv1.TaskRunning), failed
	running.StartTime, interrupted.StartTime = &start, &start
	tests := []struct {
		name    string
		request topsv1.UpgradeRequest
		shown   []topsv1.UpgradeTask
		alive   types.UID
		want    []topsv1.UpgradeTask
		changed bool
	}{
		{"a request for a DaemonSet that is gone fails", asked("1"), nil, "", []topsv1.UpgradeTask{failed}, true},
		{"a request for the one before of the same name fails", asked("1"), nil, "uid-new", []topsv1.UpgradeTask{failed}, true},
		{"a request that waits fails", asked("1"), []topsv1.UpgradeTask{waiting}, "", []topsv1.UpgradeTask{failed}, true},
		{"a request that runs fails and keeps its start", asked("1"), []topsv1.UpgradeTask{running}, "", []topsv1.UpgradeTask{interrupted}, true},
		{"a request for the DaemonSet that is there is left alone", asked("1"), []topsv1.UpgradeTask{waiting}, "uid-driver", []topsv1.UpgradeTask{waiting}, false},
		{"a request that ended stays as it ended", asked("1"), []topsv1.UpgradeTask{done}, "", []topsv1.UpgradeTask{done}, false},
		{"a request of another namespace is left alone", elsewhere, nil, "", nil, false},
		{"a request for another DaemonSet is left alone", other, []topsv1.UpgradeTask{waiting}, "", []topsv1.UpgradeTask{waiting}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := fixture.NodeUpgrade("a", tt.request)
			upgrade.Status.Tasks = tt.shown
			tasks, changed := OrphanTasks(upgrade, func(ref topsv1.NamespacedRef) bool {
				return ref.Namespace == gone.Namespace && ref.Name == gone.Name && ref.UID != tt.alive
			}, now.Time)
			if diff := cmp.Diff(tt.want, tasks); diff != "" || changed != tt.changed {
				t.Errorf("changed = %v, want %v; tasks (-want +got):\n%s", changed, tt.changed, diff)
			}
		})
	}
}

func TestNewlyGrantedReturnsHowLongARequestWaited(t *testing.T) {
	start, early := metav1.NewTime(fixture.Epoch.Add(29*time.Second)), metav1.NewTime(fixture.Epoch.Add(-time.Hour))
	upgrade := &topsv1.NodeUpgrade{}
	upgrade.Status.Requests = []topsv1.UpgradeRequest{asked("granted"), asked("before"), asked("waits"), asked("by-a-clock-ahead"), asked("refused"), asked("withdrawn"), asked("at-once"), asked("brought-back")}
	upgrade.Status.Tasks = []topsv1.UpgradeTask{{RequestID: "granted", State: topsv1.TaskWaiting}, {RequestID: "before", StartTime: &start}}
	tasks := []topsv1.UpgradeTask{{RequestID: "granted", StartTime: &start}, {RequestID: "before", StartTime: &start}, {RequestID: "waits"},
		{RequestID: "by-a-clock-ahead", StartTime: &early}, {RequestID: "without-a-request", StartTime: &start},
		{RequestID: "refused", StartTime: &start, State: topsv1.TaskFailed, Reason: reasonRevisionChanged},
		{RequestID: "withdrawn", StartTime: &start, State: topsv1.TaskWithdrawn, Reason: reasonWithdrawn},
		{RequestID: "at-once", StartTime: &start, State: topsv1.TaskDone, Reason: reasonReplaced},
		{RequestID: "brought-back", StartTime: &start, State: topsv1.TaskFailed, Reason: reasonUndone}}
	waited := start.Sub(upgrade.Status.Requests[0].RequestTime.Time)
	want := []time.Duration{waited, 0, waited, waited}
	if got := NewlyStarted(upgrade, tasks); !cmp.Equal(got, want) || want[0] <= 0 {
		t.Errorf("NewlyStarted() = %v, want %v", got, want)
	}
}

func TestWithTasksLeavesTheOriginalAlone(t *testing.T) {
	before := fixture.NodeUpgrade("a", asked("1"))
	before.Status.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("1", topsv1.TaskWaiting)}
	after := WithTasks(before, []topsv1.UpgradeTask{fixture.TaskIn("1", topsv1.TaskDone)})
	if before.Status.Tasks[0].State != topsv1.TaskWaiting || after.Status.Tasks[0].State != topsv1.TaskDone || len(after.Status.Requests) != 1 {
		t.Errorf("before %+v, after %+v", before.Status, after.Status)
	}
}

func TestATaskThatIsWithdrawn(t *testing.T) {
	withdrawn := asked("1")
	withdrawn.Withdrawn = true
	for name, test := range map[string]struct {
		in   rollout.Input
		want topsv1.TaskState
	}{
		"before it started":                    {otaInput(fixture.Planned("a", fixture.OldHash), fixture.PlannedBroken("b", fixture.NewHash)), topsv1.TaskWithdrawn},
		"while its node is offline":            {otaInput(fixture.PlannedOffline("a", fixture.OldHash)), topsv1.TaskWithdrawn},
		"after the node got its slot":          {change(otaInput(asking(fixture.Planned("a", fixture.OldHash))), holding("a")), topsv1.TaskRunning},
		"after its pod was replaced":           {otaInput(successor(fixture.Planned("a", fixture.NewHash))), topsv1.TaskDone},
		"while its node has a slot, blocked":   {change(change(otaInput(fixture.Planned("a", fixture.OldHash)), holding("a")), blockedInput("InvalidPaused")), topsv1.TaskRunning},
		"while its pod is away for other ends": {otaInput(successor(fixture.PlannedBroken("a", fixture.NewHash))), topsv1.TaskRunning},
	} {
		t.Run(name, func(t *testing.T) {
			tasks, _ := requestResultsOf(test.in).Tasks(fixture.NodeUpgrade("a", withdrawn))
			if len(tasks) != 1 || tasks[0].State != test.want {
				t.Errorf("tasks %+v, want %s", tasks, test.want)
			}
		})
	}
}
