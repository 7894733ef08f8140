package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/test/golden"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func minute(m int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(m) * time.Minute)) }

func at(m int) *metav1.Time { return ptr.To(minute(m)) }

// nasty is a message that would be markup, lines or colors.
const nasty = "a | b <script>alert(1)</script> `c` \x1b[31m\n# d"

// record is that of two upgrades, the second with a plan.
func record() []topsv1.RolloutRecordEntry {
	return []topsv1.RolloutRecordEntry{
		{Time: minute(-90), Event: topsv1.RecordComplete, Revision: "r0", Nodes: 2},
		{Time: minute(-60), Event: topsv1.RecordStarted, Revision: "r1", Subject: "gcu-1", Nodes: 2},
		{Time: minute(-50), Event: topsv1.RecordHalted, Revision: "r1", Nodes: 1, Message: "1 node failed"},
		{Time: minute(0), Event: topsv1.RecordStarted, Revision: "r2", Subject: "gcu-2", Limit: "plan=monday", Nodes: 3, By: "alice", AskedTime: at(0)},
		{Time: minute(1), Event: topsv1.RecordAwaitingApproval, Revision: "r2", Subject: "monday/second", Nodes: 2, Message: "batch second awaits approval as r2/monday/second"},
		{Time: minute(2), Event: topsv1.RecordApproved, Revision: "r2", Subject: "monday/second", By: "bob", AskedTime: at(2)},
		{Time: minute(9), Event: topsv1.RecordNodesFailed, Revision: "r2", Subject: "node-2", Nodes: 1, Message: nasty},
		{Time: minute(20), Event: topsv1.RecordResumed, Revision: "r2", Nodes: 1, By: "bob", AskedTime: at(20)},
		{Time: minute(30), Event: topsv1.RecordComplete, Revision: "r2", Nodes: 4},
	}
}

func operation(id string, phase topsv1.OperationPhase, from, to int, result topsv1.OperationResult) topsv1.OperationRecord {
	return topsv1.OperationRecord{ID: id, Revision: "r2", Phase: phase, StartTime: minute(from), EndTime: minute(to), Result: result}
}

// input has node-1 and node-2 with operations, node-3 with a new pod only, and a fourth of which nothing is kept.
func input() *Input {
	first := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	first.Status.History = []topsv1.OperationRecord{
		{ID: "before", Revision: "r1", Phase: topsv1.OperationFailed, StartTime: minute(-59), EndTime: minute(-51)},
		operation("op-1", topsv1.OperationDone, 1, 7, topsv1.OperationResult{Done: []string{"node-1_driver_replace"}})}
	second := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-2", Annotations: map[string]string{
		topsv1.AnnotationTaskOverride: "retry:node-2_driver_verify:x",
		topsv1.AnnotationAskedBy:      askedby.Change{Time: noon.Add(21 * time.Minute), Verb: askedby.Retry, User: "carol"}.Value()}}}
	failed := operation("op-2", topsv1.OperationFailed, 3, 9, topsv1.OperationResult{Done: []string{"node-2_driver_replace"}, Fail: []string{"node-2_driver_verify"}, Undo: []string{"node-2_node_uncordon"}})
	failed.Reason, failed.Message = "VerifyFailed", nasty
	second.Status.History = []topsv1.OperationRecord{failed}
	second.Status.Operation = &topsv1.OperationStatus{ID: "op-3", Revision: "r2", Phase: topsv1.OperationRunning, StartTime: minute(22)}
	held := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-9", Annotations: map[string]string{
		topsv1.AnnotationHold:    "2026-03-01T12:05:00Z a training run",
		topsv1.AnnotationAskedBy: "2026-03-01T12:05:00Z hold dave"}}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gfd-x", CreationTimestamp: minute(4), Labels: map[string]string{"controller-revision-hash": "new"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gfd", Controller: ptr.To(true)}}},
		Spec:   corev1.PodSpec{NodeName: "node-3"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: minute(5)}}}}
	old, other := pod, pod
	old.CreationTimestamp, old.Spec.NodeName = minute(-100), "node-8"
	other.Labels, other.Spec.NodeName = map[string]string{"controller-revision-hash": "old"}, "node-8" // which was not updated
	plan := topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "monday"}, Status: topsv1.UpgradePlanStatus{Done: 3, Fail: 1}}
	rollout := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Revision: "r2", Record: record(), Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/gfd", Hash: "new"}}}}
	return &Input{
		Fleet: &display.Fleet{Resource: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "my-gr"}}, Rollout: rollout,
			NodeUpgrades: []topsv1.NodeUpgrade{first, second, held}, Pods: []corev1.Pod{pod, old, other}, Now: noon.Add(40 * time.Minute)},
		Revisions: []display.Revision{{Name: "gcu-2", Changes: []display.Change{{Field: "driver.version", From: "1.0", To: "2.0"}}}},
		Plans:     []topsv1.UpgradePlan{plan},
	}
}

func TestGoldenReports(t *testing.T) {
	in := input()
	u, _ := Find(Upgrades(record()), "", "")
	r := Of(in, u)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"plan.md": r.Markdown(), "plan.json": string(data) + "\n", "plan.html": html} {
		golden.Check(t, file, text)
	}
}

func TestARequestIsInTheReportOfItsOwnDaemonSet(t *testing.T) {
	in := input()
	in.Fleet.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gfd"}}}
	asked := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-3"}}
	for _, name := range []string{"gfd", "other"} {
		asked.Status.Requests = append(asked.Status.Requests, topsv1.UpgradeRequest{ID: name, DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: name}, RequestTime: minute(3)})
		asked.Status.Tasks = append(asked.Status.Tasks, topsv1.UpgradeTask{Name: "node-3_" + name + "_replace", RequestID: name, State: topsv1.TaskDone, StartTime: at(4), EndTime: at(5)})
	}
	in.Fleet.NodeUpgrades = []topsv1.NodeUpgrade{asked}
	u, _ := Find(Upgrades(record()), "", "")
	if text := Of(in, u).Markdown(); !strings.Contains(text, `node-3\_gfd\_replace`) || strings.Contains(text, `node-3\_other\_replace`) {
		t.Errorf("the report is\n%s", text)
	}
}

func TestTheUpgradesOfARecord(t *testing.T) {
	list := Upgrades(record())
	if len(list) != 3 {
		t.Fatalf("%d upgrades", len(list))
	}
	for _, tt := range []struct{ revision, plan, want, state string }{
		{"", "", "r2", Complete},
		{"", "monday", "r2", Complete},
		{"gcu-1", "", "r1", Superseded},
		{"r0", "", "r0", Complete},
		{"gcu-1", "monday", "", ""},
		{"", "tuesday", "", ""},
	} {
		u, ok := Find(list, tt.revision, tt.plan)
		if u.Revision != tt.want || ok != (tt.want != "") {
			t.Errorf("revision %q, plan %q: upgrade to %q", tt.revision, tt.plan, u.Revision)
		} else if ok {
			if state, _ := endOf(&u); state != tt.state {
				t.Errorf("the upgrade to %s is %s, want %s", u.Revision, state, tt.state)
			}
		}
	}
	if got := Upgrades(nil); len(got) != 0 {
		t.Errorf("no record is %v", got)
	}
}

// The end of a rollback is recorded at the revision that is restored, and is part of the upgrade that failed.
func TestARollbackIsPartOfItsUpgrade(t *testing.T) {
	list := Upgrades([]topsv1.RolloutRecordEntry{
		{Time: minute(0), Event: topsv1.RecordStarted, Revision: "r1", Subject: "gcu-1"},
		{Time: minute(1), Event: topsv1.RecordComplete, Revision: "r1"},
		{Time: minute(2), Event: topsv1.RecordStarted, Revision: "r2", Subject: "gcu-2"},
		{Time: minute(3), Event: topsv1.RecordHalted, Revision: "r2"},
		{Time: minute(4), Event: topsv1.RecordRollingBack, Revision: "r2", Subject: "gcu-1"},
		{Time: minute(5), Event: topsv1.RecordRolledBack, Revision: "r1", Subject: "gcu-1"},
		{Time: minute(6), Event: topsv1.RecordStarted, Revision: "r3", Subject: "gcu-3"},
	})
	if len(list) != 3 || list[1].Revision != "r2" || len(list[1].Entries) != 4 {
		t.Fatalf("the upgrades are %+v", list)
	}
	if state, ended := endOf(&list[1]); state != RolledBack || ended == nil || !ended.Equal(minute(5).Time) {
		t.Errorf("the upgrade that failed is %s, ended %v", state, ended)
	}
}

// exceptOffline stands for the entry of an end that offline nodes have no part in.
const exceptOffline = topsv1.RolloutEvent("CompleteExceptOffline")

func TestTheStateOfAnUpgrade(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []topsv1.RolloutEvent
		want   string
	}{
		{"just begun", nil, Running},
		{"halted", []topsv1.RolloutEvent{topsv1.RecordNodesFailed, topsv1.RecordHalted}, Halted},
		{"resumed", []topsv1.RolloutEvent{topsv1.RecordHalted, topsv1.RecordResumed}, Running},
		{"rolled back", []topsv1.RolloutEvent{topsv1.RecordHalted, topsv1.RecordRollingBack, topsv1.RecordRolledBack}, RolledBack},
		{"a hold after the end", []topsv1.RolloutEvent{topsv1.RecordComplete, topsv1.RecordHeld}, Complete},
		{"nodes were offline", []topsv1.RolloutEvent{exceptOffline}, CompleteExceptOffline},
		{"nodes were offline, then more was done", []topsv1.RolloutEvent{exceptOffline, topsv1.RecordResumed, topsv1.RecordComplete}, Complete},
	} {
		entries := []topsv1.RolloutRecordEntry{{Event: topsv1.RecordStarted, Time: minute(0)}}
		for i, e := range tt.events {
			entry := topsv1.RolloutRecordEntry{Event: e, Time: minute(i + 1)}
			if e == exceptOffline {
				entry.Event, entry.Message = topsv1.RecordComplete, "2 nodes offline: upgraded when Ready again"
			}
			entries = append(entries, entry)
		}
		if got, _ := endOf(&Upgrade{Entries: entries}); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// No entry of the record ends a halt when enough of the failed nodes have recovered.
func TestAHaltThatIsOverIsNotReported(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status}
	}
	accepted, halted, goesOn := is(topsv1.RolloutAccepted, metav1.ConditionTrue), is(topsv1.RolloutHalted, metav1.ConditionTrue), is(topsv1.RolloutHalted, metav1.ConditionFalse)
	for _, tt := range []struct {
		name, revision string
		conditions     []metav1.Condition
		want           string
	}{
		{"still halted", "r2", []metav1.Condition{accepted, halted}, Halted},
		{"over", "r2", []metav1.Condition{accepted, goesOn}, Running},
		{"blocked meanwhile", "r2", []metav1.Condition{is(topsv1.RolloutAccepted, metav1.ConditionFalse), goesOn}, Halted},
		{"not known", "r2", nil, Halted},
		{"of the revision before", "r3", []metav1.Condition{accepted, goesOn}, Halted},
	} {
		in := input()
		in.Fleet.Rollout.Status.Revision, in.Fleet.Rollout.Status.Conditions = tt.revision, tt.conditions
		u := Upgrade{Revision: "r2", Entries: []topsv1.RolloutRecordEntry{{Event: topsv1.RecordStarted, Revision: "r2", Time: minute(0)}, {Event: topsv1.RecordHalted, Revision: "r2", Time: minute(1)}}}
		if got := Of(in, u).State; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	in := input()
	in.Fleet.Rollout = nil
	if got := Of(in, Upgrade{Entries: []topsv1.RolloutRecordEntry{{Event: topsv1.RecordHalted, Time: minute(1)}}}).State; got != Halted {
		t.Errorf("without a rollout: %s", got)
	}
}

// A report says which of its parts are not there.
func TestWhatIsNotKeptIsNamed(t *testing.T) {
	in := input()
	in.NotShown = []string{"the nodes: missing permission"}
	u, _ := Find(Upgrades(record()), "r0", "")
	missing := strings.Join(Of(in, u).Missing, "\n")
	for _, word := range []string{"missing permission", "the beginning", "the work on 2 of 2 nodes"} {
		if !strings.Contains(missing, word) {
			t.Errorf("%q is not in %q", word, missing)
		}
	}
	u, _ = Find(Upgrades(record()), "", "")
	if missing := Of(input(), u).Missing; len(missing) != 2 || !strings.Contains(missing[1], "the work on 1 of 4 nodes") {
		t.Errorf("missing is %q", missing)
	}
}

func TestNothingThatOthersWroteIsMarkup(t *testing.T) {
	u, _ := Find(Upgrades(record()), "", "")
	r := Of(input(), u)
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	markdown := r.Markdown()
	for what, has := range map[string]bool{
		"a script in HTML":     strings.Contains(html, "<script>"),
		"a color in HTML":      strings.Contains(html, "\x1b"),
		"a script in Markdown": strings.Contains(strings.ReplaceAll(markdown, `\<`, ""), "<"),
		"a color in Markdown":  strings.Contains(markdown, "\x1b"),
		"a line in Markdown":   strings.Contains(markdown, "\n# d"),
		"a cell in Markdown":   strings.Contains(markdown, "a | b"),
	} {
		if has {
			t.Errorf("what others wrote is %s", what)
		}
	}
}
