package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// inputWith returns the input of a group of one member, one node at a time.
func inputWith(nodes ...rollout.Node) rollout.Input {
	return rollout.Input{
		Now: fixture.Epoch, Deadlines: rollout.DefaultDeadlines, Revision: "r2",
		Settings: daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(1)},
		Members:  []rollout.Member{{Key: "kube-system/driver", Target: fixture.NewHash}},
		Ledger:   rollout.Ledger{Revision: "r2"},
		Nodes:    nodes,
	}
}

func change(in rollout.Input, f func(*rollout.Input)) rollout.Input {
	f(&in)
	return in
}

// notPulled returns an outdated node whose images could not be pulled, after some attempts.
func notPulled(name string, attempts int32) rollout.Node {
	n := fixture.Planned(name, fixture.OldHash)
	n.Pods[0].Pull = rollout.Pull{State: rollout.PullFailed, Attempts: attempts, Retry: fixture.Epoch.Add(time.Hour), Message: "no such image"}
	return n
}

// leftOut returns an outdated node that the upgrade leaves out.
func leftOut(name string) rollout.Node {
	n := fixture.Planned(name, fixture.OldHash)
	n.LeftOut = true
	return n
}

func pausedInput(in *rollout.Input) { in.Settings.Paused = true }

// taskBefore is a global task that comes before the nodes.
func taskBefore(reason string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Beforehand = &rollout.Blocked{Reason: reason, Message: "database_backup"} }
}

func failedNodes(names ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Ledger.Touched = len(names)
		for _, name := range names {
			in.Ledger.Failures = append(in.Ledger.Failures, rollout.Failure{
				Node: name, UID: types.UID("uid-" + name), Reason: rollout.ReasonCrashLooping, Message: "it crash-loops", Since: fixture.Epoch})
		}
	}
}

func holding(name string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Ledger.Touched = 1
		in.Ledger.Slots = []rollout.Slot{{Node: name, UID: types.UID("uid-" + name), Since: fixture.Epoch, Revision: "r2", Pod: "earlier"}}
	}
}

func blockedInput(reason string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Blocked = &rollout.Blocked{Reason: reason, Message: "because of " + reason}
	}
}

// saying returns the messages when all is well, changed by pairs of condition and message.
func saying(pairs ...string) map[string]string {
	said := map[string]string{"Accepted": "True/SettingsAccepted", "Progressing": "False/Complete", "Halted": "False/NotHalted",
		"Paused": "False/NotPaused", "Complete": "False/Incomplete"}
	for i := 0; i < len(pairs); i += 2 {
		said[pairs[i]] = pairs[i+1]
	}
	return said
}

func statusAfter(in rollout.Input) topsv1.DaemonRolloutStatus {
	return Status(topsv1.DaemonRolloutStatus{}, 7, in, rollout.Plan(in))
}

var everyNode = intstr.FromString("100%")

var stateWords = []struct {
	name string
	in   rollout.Input
	want map[string]string
}{
	{"every node at the target", inputWith(fixture.Planned("a", fixture.NewHash)), saying("Complete", "True/Complete")},
	{"every reachable node at the target", inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedOffline("b", fixture.OldHash)),
		saying("Progressing", "False/CompleteExceptOffline", "Complete", "True/CompleteExceptOffline")},
	{"no node at all", inputWith(), saying("Complete", "True/Complete")},
	{"a node in flight", inputWith(fixture.Planned("a", fixture.OldHash), fixture.Planned("b", fixture.NewHash)), saying("Progressing", "True/RollingOut", "Reconciling", "True/RollingOut")},
	{"the last node in flight", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash)), holding("a")), saying("Progressing", "True/RollingOut", "Reconciling", "True/RollingOut")},
	{"the last node in flight that is gone", change(inputWith(fixture.Planned("a", fixture.NewHash)), holding("gone")), saying("Progressing", "False/Complete", "Complete", "True/Complete")},
	{"the budget used up by others", inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), saying("Progressing", "False/BudgetExhausted", "Reconciling", "True/BudgetExhausted")},
	{"of reasons that are as common the first by name", inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash)), saying("Progressing", "False/BudgetExhausted", "Reconciling", "True/BudgetExhausted")},
	{"one pod unavailable at the target", inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.NewHash)), saying("Progressing", "False/Unavailable", "Reconciling", "True/Unavailable")},
	{"outside of the maintenance window", change(inputWith(fixture.Planned("a", fixture.OldHash)), func(in *rollout.Input) {
		in.Policy.Window = &rollout.Window{Start: 12 * time.Hour, Length: time.Hour, Zone: time.UTC}
	}), saying("Progressing", "False/OutsideMaintenanceWindow", "Reconciling", "True/OutsideMaintenanceWindow")},
	{"a wave that waits for a person", change(inputWith(fixture.Planned("a", fixture.OldHash)), func(in *rollout.Input) {
		in.Policy.Waves = []rollout.Wave{{Name: "first", Size: &everyNode, Manual: true}}
	}), saying("Progressing", "False/AwaitingApproval", "Reconciling", "True/AwaitingApproval")},
	{"a wave that waits for a person, and most nodes are left out", change(inputWith(fixture.Planned("a", fixture.OldHash), leftOut("b"), leftOut("c")), func(in *rollout.Input) {
		in.Policy.Waves = []rollout.Wave{{Name: "first", Size: &everyNode, Manual: true}}
	}), saying("Progressing", "False/AwaitingApproval", "Reconciling", "True/AwaitingApproval")},
	{"an image that cannot be pulled in the first wave, and most nodes are in the second", change(inputWith(notPulled("a", 5), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), func(in *rollout.Input) {
		in.Policy.Waves = []rollout.Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"wave": "first"})}}
		in.Nodes[0].Labels = map[string]string{"wave": "first"}
	}), saying("Progressing", "False/PrepullFailed", "Stalled", "True/PrepullFailed")},
	{"a failed node uses up the budget in the first wave, and most nodes are in the second", change(change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash), fixture.Planned("d", fixture.OldHash)), failedNodes("a")), func(in *rollout.Input) {
		in.Policy.Waves = []rollout.Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"wave": "first"})}}
		in.Nodes[0].Labels, in.Nodes[1].Labels = map[string]string{"wave": "first"}, map[string]string{"wave": "first"}
	}), saying("Progressing", "False/NodesFailed", "Stalled", "True/NodesFailed")},
	{"every node that is outdated is left out", inputWith(fixture.Planned("a", fixture.NewHash), leftOut("b")), saying("Progressing", "False/LeftOut", "Reconciling", "True/LeftOut")},
	{"a policy that is missing", change(inputWith(fixture.Planned("a", fixture.OldHash)), blockedInput("UpgradePolicyNotFound")),
		saying("Accepted", "False/UpgradePolicyNotFound", "Progressing", "False/UpgradePolicyNotFound", "Stalled", "True/UpgradePolicyNotFound")},
	{"too many nodes failed", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash), fixture.Planned("c", fixture.OldHash)), failedNodes("a", "b")),
		saying("Progressing", "False/Halted", "Halted", "True/Halted", "Stalled", "True/Halted")},
	{"a node failed and nothing else is left", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.NewHash)), failedNodes("a")),
		saying("Progressing", "False/NodesFailed", "Stalled", "True/NodesFailed")},
	{"a failed node uses up the budget", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), failedNodes("a")),
		saying("Progressing", "False/NodesFailed", "Stalled", "True/NodesFailed")},
	{"a failed node uses up the budget of its pool", change(change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), failedNodes("a")), func(in *rollout.Input) {
		in.Settings.MaxUnavailable, in.Policy.PoolMaxUnavailable = intstr.FromInt32(2), ptr.To(intstr.FromInt32(1))
	}), saying("Progressing", "False/NodesFailed", "Stalled", "True/NodesFailed")},
	{"a failed node is offline, and another one uses up the budget", change(inputWith(fixture.PlannedOffline("x", fixture.NewHash), fixture.PlannedBroken("y", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), failedNodes("x")),
		saying("Progressing", "False/BudgetExhausted", "Reconciling", "True/BudgetExhausted")},
	{"a failed node is offline, and another one uses up the budget of its pool", change(change(inputWith(fixture.PlannedOffline("x", fixture.NewHash), fixture.PlannedBroken("y", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)), failedNodes("x")), func(in *rollout.Input) {
		in.Settings.MaxUnavailable, in.Policy.PoolMaxUnavailable = intstr.FromInt32(2), ptr.To(intstr.FromInt32(1))
	}), saying("Progressing", "False/PoolBudgetExhausted", "Reconciling", "True/PoolBudgetExhausted")},
	{"a node failed and is gone", change(inputWith(fixture.Planned("b", fixture.NewHash)), failedNodes("a")), saying("Progressing", "False/NodesFailed", "Stalled", "True/NodesFailed")},
	{"images that cannot be pulled", inputWith(notPulled("a", 4)), saying("Progressing", "False/PrepullFailed", "Reconciling", "True/PrepullFailed")},
	{"images that cannot be pulled for long", inputWith(notPulled("a", 5)), saying("Progressing", "False/PrepullFailed", "Stalled", "True/PrepullFailed")},
	{"a global task that is awaited", change(inputWith(fixture.Planned("a", fixture.OldHash)), taskBefore("AwaitingGlobalTask")),
		saying("Progressing", "False/AwaitingGlobalTask", "Reconciling", "True/AwaitingGlobalTask")},
	{"a global task that is awaited with nothing else to do", change(inputWith(fixture.Planned("a", fixture.NewHash)), taskBefore("AwaitingGlobalTask")),
		saying("Progressing", "False/AwaitingGlobalTask", "Reconciling", "True/AwaitingGlobalTask")},
	{"a global task that is awaited while a node in flight finishes", change(change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash)), holding("a")), taskBefore("AwaitingGlobalTask")),
		saying("Progressing", "True/RollingOut", "Reconciling", "True/RollingOut")},
	{"a global task that failed while a node in flight finishes", change(change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash)), holding("a")), taskBefore("GlobalTaskFailed")),
		saying("Accepted", "False/GlobalTaskFailed", "Progressing", "False/GlobalTaskFailed", "Stalled", "True/GlobalTaskFailed")},
	{"paused", change(inputWith(fixture.Planned("a", fixture.OldHash)), pausedInput), saying("Progressing", "False/Paused", "Paused", "True/Paused", "Reconciling", "True/Paused")},
	{"paused while a node in flight finishes", change(change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash)), holding("a")), pausedInput),
		saying("Progressing", "True/RollingOut", "Paused", "True/Paused", "Reconciling", "True/RollingOut")},
	{"paused with nothing to do", change(inputWith(fixture.Planned("a", fixture.NewHash)), pausedInput), saying("Paused", "True/Paused", "Complete", "True/Complete")},
	{"OTA and nobody asked", change(inputWith(fixture.Planned("a", fixture.OldHash)), func(in *rollout.Input) { in.Settings.Strategy = daemonset.OTA }),
		saying("Progressing", "False/AwaitingRequests")},
	{"OTA and one of many did not ask", otaInput(asking(fixture.Planned("a", fixture.OldHash)), asking(fixture.Planned("b", fixture.OldHash)), fixture.PlannedBroken("c", fixture.NewHash), fixture.Planned("d", fixture.OldHash)),
		saying("Progressing", "False/AwaitingRequests")},
	{"OTA and who asked waits for the budget", otaInput(asking(fixture.Planned("a", fixture.OldHash)), asking(fixture.Planned("b", fixture.OldHash)), fixture.PlannedBroken("c", fixture.NewHash)),
		saying("Progressing", "False/BudgetExhausted", "Reconciling", "True/BudgetExhausted")},
	{"OTA and one pod unavailable at the target", otaInput(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.NewHash)), saying("Progressing", "False/Unavailable", "Reconciling", "True/Unavailable")},
	{"settings that are wrong", change(inputWith(fixture.Planned("a", fixture.NewHash)), blockedInput("InvalidMaxUnavailable")),
		saying("Accepted", "False/InvalidMaxUnavailable", "Progressing", "False/InvalidMaxUnavailable", "Stalled", "True/InvalidMaxUnavailable")},
	{"a target not known yet is no fault of the settings", change(inputWith(fixture.Planned("a", fixture.NewHash)), blockedInput("RevisionPending")),
		saying("Progressing", "False/RevisionPending", "Reconciling", "True/RevisionPending")},
	{"annotations carried to some members only are no fault of the settings", change(inputWith(fixture.Planned("a", fixture.NewHash)), blockedInput("SettingsDisagree")),
		saying("Progressing", "False/SettingsDisagree", "Reconciling", "True/SettingsDisagree")},
}

func TestStatusHasTheStateInOneWord(t *testing.T) {
	for _, tt := range stateWords {
		t.Run(tt.name, func(t *testing.T) {
			status := statusAfter(tt.in)
			if diff := cmp.Diff(tt.want, fixture.Words(status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			for _, c := range status.Conditions {
				if c.ObservedGeneration != 7 || c.Message == "" || !c.LastTransitionTime.Time.Equal(fixture.Epoch) {
					t.Errorf("condition without a message, or of another generation or time: %+v", c)
				}
			}
		})
	}
}

func TestStatusDoesNotChangeWhileNothingChanges(t *testing.T) {
	for _, tt := range stateWords {
		t.Run(tt.name, func(t *testing.T) {
			before := statusAfter(tt.in)
			in := tt.in
			in.Now, in.Ledger = fixture.Epoch.Add(20*time.Second), observed.Ledger(&before, fixture.Epoch)
			if diff := cmp.Diff(before, Status(before, 7, in, rollout.Plan(in))); diff != "" {
				t.Errorf("status a while later (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStatusKeepsTheTimeOfConditionsThatDidNotChange(t *testing.T) {
	in := inputWith(fixture.Planned("a", fixture.OldHash))
	before := statusAfter(in)
	kept := before.DeepCopy()
	in.Nodes[0] = fixture.Planned("a", fixture.NewHash)
	in.Now, in.Ledger = fixture.Epoch.Add(time.Minute+300*time.Millisecond), observed.Ledger(&before, fixture.Epoch)
	after := Status(before, 8, in, rollout.Plan(in))
	got := map[string]time.Duration{}
	for _, c := range after.Conditions {
		got[c.Type] = c.LastTransitionTime.Sub(fixture.Epoch)
		if c.ObservedGeneration != 8 {
			t.Errorf("condition %s is of generation %d, want 8", c.Type, c.ObservedGeneration)
		}
	}
	want := map[string]time.Duration{"Accepted": 0, "Halted": 0, "Paused": 0, "Progressing": time.Minute, "Complete": time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("time of the last transition (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*kept, before); diff != "" {
		t.Errorf("the status before was written to (-before +after):\n%s", diff)
	}
}

func TestStatusMessagesSayWhatAPersonNeeds(t *testing.T) {
	mixed := change(inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash), fixture.Planned("c", fixture.OldHash), fixture.PlannedOffline("d", fixture.OldHash), fixture.PlannedBroken("e", fixture.NewHash)),
		func(in *rollout.Input) {
			holding("b")(in)
			failedNodes("e")(in)
		})
	tests := []struct {
		name, condition string
		in              rollout.Input
		want            string
	}{
		{"progress counts every state and names who waits", "Progressing", mixed,
			"1 of 5 nodes updated, 1 in flight (b), 1 pending, 1 skipped because they are offline (d), 1 failed (e)"},
		{"completeness says the same", "Complete", inputWith(fixture.Planned("a", fixture.NewHash)), "1 of 1 nodes updated"},
		{"at most five names", "Progressing", change(inputWith(fixture.ManyNodes(8, fixture.Planned, fixture.OldHash)...), pausedInput),
			"0 of 8 nodes updated, 8 held"},
		{"a halt says which nodes and what helps", "Halted", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), failedNodes("a", "b")),
			"2 of 2 started nodes failed (a, b): roll out another revision, repair these nodes, or resume"},
		{"progress during a halt says both", "Progressing", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), failedNodes("a", "b")),
			"2 of 2 started nodes failed (a, b): roll out another revision, repair these nodes, or resume; 0 of 2 nodes updated, 2 failed (a, b)"},
		{"the reason of the pending nodes comes before the counts", "Progressing", inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.NewHash)),
			"waiting for pod p-a of kube-system/driver to be available; 1 of 2 nodes updated, 1 pending"},
		{"of many reasons the most common is told", "Progressing", inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash)),
			"1 of at most 1 nodes are unavailable; 0 of 3 nodes updated, 3 pending"},
		{"wrong settings say what to change", "Accepted", change(inputWith(), blockedInput("InvalidPaused")), "because of InvalidPaused"},
		{"wrong settings say so in progress too", "Progressing", change(inputWith(), blockedInput("InvalidPaused")), "because of InvalidPaused"},
		{"a failed node that is gone says how to clear that", "Progressing", change(inputWith(fixture.Planned("b", fixture.NewHash)), failedNodes("a")),
			"failed earlier and gone: a; clear that with kubectl gcu resume, or roll out another revision; 1 of 2 nodes updated, 1 failed (a)"},
		{"a failed node that is there does not", "Progressing", change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.NewHash)), failedNodes("a")), "1 of 2 nodes updated, 1 failed (a)"},
		{"a pause says how to continue", "Paused", change(inputWith(), pausedInput),
			"annotation topsops.enflame.com/paused is true; to continue, run kubectl gcu resume, or remove the annotation"},
		{"no pause names its annotation", "Paused", inputWith(), "annotation topsops.enflame.com/paused is not true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, fixture.MessageOf(statusAfter(tt.in), tt.condition)); diff != "" {
				t.Errorf("message of %s (-want +got):\n%s", tt.condition, diff)
			}
		})
	}
}

func TestStatusCountsAndLists(t *testing.T) {
	in := change(inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash), fixture.Planned("c", fixture.OldHash), fixture.PlannedOffline("d", fixture.OldHash), fixture.PlannedBroken("e", fixture.NewHash)),
		func(in *rollout.Input) {
			holding("b")(in)
			failedNodes("e")(in)
			in.Settings.MaxUnavailable = intstr.FromString("25%")
			in.Policy.Waves = []rollout.Wave{{Name: "rare", Selector: labels.Nothing()}}
			in.Ledger.Usual, in.Ledger.Resumed, in.Resume = 30*time.Second, "monday", "monday"
		})
	previous := topsv1.DaemonRolloutStatus{Strategy: "OTA", Targets: []topsv1.RevisionTarget{{DaemonSet: "gone", Hash: "x"}}, Skipped: []topsv1.NodeNote{{Node: "back"}}, Total: 99}
	now := fixture.Ago(0)
	want := topsv1.DaemonRolloutStatus{
		Strategy: "AdvancedRollingUpdate", MaxUnavailable: 2, Revision: "r2",
		Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: fixture.NewHash}},
		Total:   5, Updated: 1, InFlightNodes: 1, Pending: 1, SkippedNodes: 1, FailedNodes: 1, Unavailable: 2, Touched: 1, Started: 1,
		UsualSeconds: 30, ETASeconds: 30, Resumed: "monday",
		Waves:            []topsv1.WaveStatus{{Name: "rare", CompletedTime: &now}, {Name: "rest", Total: 5, Updated: 1}},
		Waiting:          []topsv1.WaitingNote{{Reason: "BudgetExhausted", Nodes: 1, Message: "2 of at most 2 nodes are unavailable"}},
		InFlight:         []topsv1.NodeSlot{{Node: "b", UID: "uid-b", Since: now, ProgressTime: &now, NewestPodTime: &now, Step: "AwaitingAvailable", Revision: "r2", PodUID: "earlier"}},
		LastDecisionTime: &now,
		Failed:           []topsv1.NodeNote{{Node: "e", UID: "uid-e", Reason: "CrashLooping", Message: "it crash-loops", Since: fixture.Ago(0)}},
		Skipped: []topsv1.NodeNote{{Node: "d", Reason: "NodeOffline", Since: fixture.Ago(time.Minute),
			Message: "the node was offline before it was touched; it is upgraded when it is Ready again"}},
	}
	got := Status(previous, 7, in, rollout.Plan(in))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(topsv1.DaemonRolloutStatus{}, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]topsv1.NodeNote{{Node: "back"}}, previous.Skipped); diff != "" {
		t.Errorf("the status before was written to (-want +got):\n%s", diff)
	}
}

// Where a failure is counted, it can be cleared with kubectl gcu resume.
func TestAFailedNodeThatIsGoneIsCounted(t *testing.T) {
	if status := statusAfter(change(inputWith(fixture.Planned("b", fixture.NewHash)), failedNodes("a"))); status.FailedNodes != 1 || status.Total != 2 {
		t.Errorf("%d of %d failed, want 1 of 2", status.FailedNodes, status.Total)
	}
}

func TestStatusListsAtMostTwentySkippedNodesAndCountsAll(t *testing.T) {
	status := statusAfter(inputWith(fixture.ManyNodes(23, fixture.PlannedOffline, fixture.OldHash)...))
	if len(status.Skipped) != 20 || status.Skipped[19].Node != "n19" || status.SkippedNodes != 23 {
		t.Errorf("%d listed of %d, want the first 20 of 23", len(status.Skipped), status.SkippedNodes)
	}
}

func TestStatusKeepsConditionsOfOthers(t *testing.T) {
	foreign := metav1.Condition{Type: "Reviewed", Status: metav1.ConditionTrue, Reason: "ByHand"}
	in := inputWith()
	got := fixture.Words(Status(topsv1.DaemonRolloutStatus{Conditions: []metav1.Condition{foreign}}, 7, in, rollout.Plan(in)))
	if got["Reviewed"] != "True/ByHand" || len(got) != 6 {
		t.Errorf("conditions = %v, want the five of the rollout and Reviewed", got)
	}
}
