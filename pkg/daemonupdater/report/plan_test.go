package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/fixture"
)

// The result is {done, fail, undo}, per task as well: an offline node, one that waits and one that is gone are undo; one of which
// only the rest is outdated is done.
//
// Contract 93.
func TestTheResultOfAPlan(t *testing.T) {
	plan, err := planfile.Read(&topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", Generation: 2}, Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"done", "fails", "off", "rest", "waits", "gone"}}}}}}}, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	exporter := memberWith(fixture.Annotate(fixture.ComponentOf("exporter"), topsv1.AnnotationUpgradePlan, "mission"))
	exporter.DaemonSet.Annotations[topsv1.AnnotationRevision] = "fleet-2"
	w := worldOf([]memberAndPods{exporter})
	w.Plan.Read = plan
	if blocked := inputFrom(w).Blocked; blocked != nil {
		t.Fatal(blocked)
	}
	rest := fixture.Planned("rest", fixture.OldHash)
	rest.Pods[0].LeftOut = true
	fails := fixture.PlannedBroken("fails", fixture.NewHash)
	in := rollout.Input{Now: fixture.Epoch, Settings: daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate}, Revision: "r", Deadlines: rollout.DefaultDeadlines,
		Members: []rollout.Member{{Key: exporter.Key(), Target: fixture.NewHash}}, Nodes: []rollout.Node{fixture.Planned("done", fixture.NewHash), fails,
			fixture.PlannedOffline("off", fixture.OldHash), rest, fixture.Planned("waits", fixture.OldHash)},
		Ledger: rollout.Ledger{Revision: "r", Failures: []rollout.Failure{{Node: "fails", UID: fails.UID, Reason: "CrashLooping", Message: "main crash-loops",
			Targets: []rollout.Target{{Member: exporter.Key(), Revision: fixture.NewHash}}}}}}
	d := rollout.Plan(in)
	if PlanIsComplete(plan, &in, &d) {
		t.Error("the plan is through, with a node that waits and one that failed")
	}
	now := metav1.NewTime(fixture.Epoch)
	got := PlanResult(plan, &in, &d, func(node string) topsv1.FailedNode { return w.Plan.FailedNode(w.Members, &d, node, in.Revision, nil) }, now)
	want := topsv1.UpgradePlanStatus{ObservedGeneration: 2, Time: &now, Done: 2, Fail: 1, Undo: 3, Undone: []string{"off", "waits", "gone"},
		Failed: []topsv1.FailedNode{{Node: "fails", Task: "fails_exporter_replace", Message: "main crash-loops"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	in.Beforehand = &rollout.Blocked{Reason: topsv1.ReasonAwaitingGlobalTask, Message: "upg-server_database_backup"}
	awaiting := rollout.Plan(in)
	if got := PlanResult(plan, &in, &awaiting, func(string) topsv1.FailedNode { return want.Failed[0] }, now); !cmp.Equal(got, want) {
		t.Errorf("while a task before the nodes is awaited: %s", cmp.Diff(want, got))
	}
	plan.Object.Status = got
	tasks := map[string]topsv1.OperationResult{}
	for _, r := range plan.Results() {
		tasks[r.Node] = r.Tasks
	}
	if diff := cmp.Diff(map[string]topsv1.OperationResult{"done": {Done: []string{"done_exporter_replace"}}, "rest": {Done: []string{"rest_exporter_replace"}},
		"fails": {Fail: []string{"fails_exporter_replace"}}, "off": {Undo: []string{"off_exporter_replace"}}, "waits": {Undo: []string{"waits_exporter_replace"}},
		"gone": {Undo: []string{"gone_exporter_replace"}}}, tasks); diff != "" {
		t.Errorf("results of tasks (-want +got):\n%s", diff)
	}
}

// What comes after the nodes waits for those that can be reached, and holds the end of the rollout.
func TestWhenTheNodesOfAPlanAreDone(t *testing.T) {
	rest := fixture.Planned("rest", fixture.OldHash)
	rest.Pods[0].LeftOut = true
	limited := fixture.Planned("limited", fixture.OldHash)
	limited.LeftOut = true
	for _, tt := range []struct {
		name string
		node rollout.Node
		only string
		want bool
	}{
		{"updated", fixture.Planned("updated", fixture.NewHash), "", true},
		{"updated, under a limit", fixture.Planned("updated", fixture.NewHash), "nodes=other", true},
		{"offline, and none is done", fixture.PlannedOffline("offline", fixture.OldHash), "", false},
		{"what the plan leaves out", rest, "", true},
		{"what a limit leaves out of the plan", limited, "nodes=other", false},
		{"gone, and none is done", fixture.Planned("another", fixture.OldHash), "", false},
		{"outdated", fixture.Planned("outdated", fixture.OldHash), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.node.Name
			if name == "another" {
				name = "gone"
			}
			plan, err := planfile.Read(&topsv1.UpgradePlan{Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
				Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
				Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{name}}}}}}}, upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			in := inputWith(tt.node)
			in.Settings.Only = tt.only
			d := rollout.Plan(in)
			if got := PlanIsComplete(plan, &in, &d); got != tt.want {
				t.Errorf("through: %v", got)
			}
		})
	}
	in := inputWith(fixture.Planned("updated", fixture.NewHash))
	d := rollout.Plan(in)
	if !IsComplete(in, d) {
		t.Fatal("it is not complete without tasks afterwards")
	}
	for _, reason := range []string{topsv1.ReasonAwaitingGlobalTask, topsv1.ReasonGlobalTaskFailed} {
		in.Afterwards = &rollout.Blocked{Reason: reason, Message: "upg-server_cluster_check"}
		words := fixture.Words(Status(topsv1.DaemonRolloutStatus{}, 1, in, d))
		stalled := words[topsv1.ConditionStalled] != ""
		if words[topsv1.RolloutComplete] != "False/Incomplete" || words[topsv1.RolloutProgressing] != "False/"+reason || stalled != (reason == topsv1.ReasonGlobalTaskFailed) {
			t.Errorf("conditions %v", words)
		}
	}
}

// Of what is not done, only batches that had their turn are passed over: nodes that are offline or were rolled back individually.
func TestWhatComesAfterTheNodesWaitsForEveryBatch(t *testing.T) {
	plan, err := planfile.Read(&topsv1.UpgradePlan{Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs: []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"a"}}}},
			{Name: "two", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"b"}}}}}}}, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	ready, off := fixture.Planned, fixture.PlannedOffline
	rest := ready("a", fixture.OldHash)
	rest.Pods[0].LeftOut = true
	for name, tt := range map[string]struct {
		a, b     rollout.Node
		manual   bool
		strategy daemonset.Strategy
		want     bool
	}{
		"the second one is offline":                     {ready("a", fixture.NewHash), off("b", fixture.OldHash), false, daemonset.AdvancedRollingUpdate, true},
		"so is the first one":                           {off("a", fixture.OldHash), ready("b", fixture.NewHash), false, daemonset.AdvancedRollingUpdate, true},
		"the second one is offline and awaits approval": {ready("a", fixture.NewHash), off("b", fixture.OldHash), true, daemonset.AdvancedRollingUpdate, false},
		"persons at the nodes start it":                 {ready("a", fixture.NewHash), off("b", fixture.OldHash), true, daemonset.OTA, true},
		"it was done without its turn":                  {ready("a", fixture.NewHash), ready("b", fixture.NewHash), true, daemonset.AdvancedRollingUpdate, true},
		"the first one has what the plan gives it":      {rest, off("b", fixture.OldHash), false, daemonset.AdvancedRollingUpdate, true},
		"none is reached, one is done":                  {off("a", fixture.NewHash), off("b", fixture.OldHash), false, daemonset.AdvancedRollingUpdate, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.b.Batch, tt.a.Pods[0].Created = 1, fixture.Epoch.Add(-time.Hour) // it did not take the node offline
			in := inputWith(tt.a, tt.b)
			in.Settings.Strategy, in.Policy.Plan = tt.strategy, "mission"
			in.Policy.Batches = []rollout.Batch{{Name: "one"}, {Name: "two", Manual: tt.manual}}
			d := rollout.Plan(in)
			if got := PlanIsComplete(plan, &in, &d); got != tt.want {
				t.Errorf("through: %v", got)
			}
		})
	}
}

// failure.action RollbackNode: the failure becomes a pin, and the node stays one that failed until a person resumes.
func TestANodeThatWentBackAloneFailedItsPlan(t *testing.T) {
	plan, err := planfile.Read(&topsv1.UpgradePlan{Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"a", "b", "c"}}}}}}}, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	exporter := memberWith(fixture.ComponentOf("exporter"))
	pin := rollout.Pin{UID: "uid-b", Member: exporter.Key(), Revision: fixture.OldHash, From: fixture.NewHash, Reason: "CrashLooping", Failed: true, Message: "kept (CrashLooping)"}
	undone := pin
	pin.Node, undone.Node, undone.UID, undone.Failed = "b", "c", "uid-c", false
	returning := fixture.Planned("b", fixture.NewHash)
	for name, b := range map[string]rollout.Node{"is back": fixture.Planned("b", fixture.OldHash), "goes back": returning} {
		t.Run("it "+name, func(t *testing.T) {
			in := inputWith(fixture.Planned("a", fixture.NewHash), b, fixture.Planned("c", fixture.OldHash))
			in.Members[0].Key, in.Ledger.Pins = exporter.Key(), []rollout.Pin{pin, undone}
			in.Policy.Plan, in.Policy.Batches = "mission", []rollout.Batch{{Name: "one"}}
			d := rollout.Plan(in)
			blamed, _ := d.Blame("b")
			if got := PlanResult(plan, &in, &d, func(node string) topsv1.FailedNode { return topsv1.FailedNode{Node: node, Task: blamed} }, metav1.Time{}); !cmp.Equal(got.Failed,
				[]topsv1.FailedNode{{Node: "b", Task: exporter.Key(), Message: "kept (CrashLooping)"}}) || got.Done != 1 || got.Fail != 1 || !cmp.Equal(got.Undone, []string{"c"}) {
				t.Errorf("result %+v", got)
			}
			if got := PlanIsComplete(plan, &in, &d); got != (name == "is back") {
				t.Errorf("through: %v", got)
			}
		})
	}
}

// A result is read after months, when nodes of the plan may be decommissioned: what is recorded of one stays, for the plan as it is.
//
// Contract 93.
func TestANodeThatWasDoneStaysDoneWhenItIsGone(t *testing.T) {
	in := inputWith(fixture.Planned("stays", fixture.NewHash), fixture.Planned("outdated", fixture.OldHash))
	d := rollout.Plan(in)
	for _, tt := range []struct {
		name   string
		before topsv1.UpgradePlanStatus
		undone []string
	}{
		{"of a node that was done and is gone", topsv1.UpgradePlanStatus{ObservedGeneration: 2, Time: &metav1.Time{}, Done: 3, Undo: 1, Undone: []string{"undone"}}, []string{"outdated", "undone"}},
		{"of the plan before it was edited", topsv1.UpgradePlanStatus{ObservedGeneration: 1, Time: &metav1.Time{}, Done: 4}, []string{"outdated", "gone", "undone"}},
		{"without one", topsv1.UpgradePlanStatus{}, []string{"outdated", "gone", "undone"}},
		{"of a node that failed and is gone", topsv1.UpgradePlanStatus{ObservedGeneration: 2, Time: &metav1.Time{}, Done: 2, Fail: 1, Undo: 1,
			Failed: []topsv1.FailedNode{{Node: "gone"}}, Undone: []string{"undone"}}, []string{"outdated", "gone", "undone"}},
		{"with more names than fit", topsv1.UpgradePlanStatus{ObservedGeneration: 2, Time: &metav1.Time{}, Done: 2, Undo: 2}, []string{"outdated", "gone", "undone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := planfile.Read(&topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", Generation: 2}, Status: tt.before, Spec: topsv1.UpgradePlanSpec{
				GcuResource: "fleet", Revision: "fleet-2", Jobs: []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
				Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"stays", "outdated", "gone", "undone"}}}}}}}, upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			got := PlanResult(plan, &in, &d, nil, metav1.Time{})
			if !cmp.Equal(got.Undone, tt.undone) || int(got.Done) != 4-len(tt.undone) || int(got.Undo) != len(tt.undone) || got.Fail != 0 {
				t.Errorf("done %d, fail %d, undo %d: %v, want %v", got.Done, got.Fail, got.Undo, got.Undone, tt.undone)
			}
		})
	}
}

// With the plan, a result is one object of etcd, which takes 1.5 MiB.
func TestTheResultOfAPlanIsBounded(t *testing.T) {
	in := inputWith()
	spec := topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2", Jobs: []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}}}
	var names []string
	for i := range 2000 {
		n := fixture.PlannedBroken(fmt.Sprintf("node-%04d-%s", i, strings.Repeat("x", 243)), fixture.NewHash)
		names, in.Nodes = append(names, n.Name), append(in.Nodes, n)
		in.Ledger.Failures = append(in.Ledger.Failures, rollout.Failure{Node: n.Name, UID: n.UID, Reason: "CrashLooping", Message: strings.Repeat("ä", 2000),
			Targets: []rollout.Target{{Member: in.Members[0].Key, Revision: fixture.NewHash}}})
	}
	in.Ledger.Revision = in.Revision
	spec.Batches = []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: names}}}}
	plan, err := planfile.Read(&topsv1.UpgradePlan{Spec: spec}, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	d := rollout.Plan(in)
	result := PlanResult(plan, &in, &d, func(node string) topsv1.FailedNode {
		return topsv1.FailedNode{Node: node, Task: node + "_exporter_replace", Done: []string{"driver"}}
	}, metav1.NewTime(fixture.Epoch))
	text, err := json.Marshal(result)
	if err != nil || result.Fail != 2000 || len(result.Failed) < 100 || len(text) > 300<<10 || !utf8.ValidString(result.Failed[0].Message) {
		t.Errorf("%v: %d nodes failed, the result has %d of them in %d bytes", err, result.Fail, len(result.Failed), len(text))
	}
}
