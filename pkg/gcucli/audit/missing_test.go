package audit

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// entry is one of a record.
func entry(at int, event topsv1.RolloutEvent, revision string, nodes int32) topsv1.RolloutRecordEntry {
	return topsv1.RolloutRecordEntry{Time: minute(at), Event: event, Revision: revision, Nodes: nodes}
}

// done is an operation on a node for a revision.
func done(id, revision string, at int) topsv1.OperationRecord {
	return topsv1.OperationRecord{ID: id, Revision: revision, Phase: topsv1.OperationDone, StartTime: minute(at), EndTime: minute(at + 1)}
}

// ten is a fleet of ten nodes with a record and operations of each node, at the revision of the last entry.
func ten(record []topsv1.RolloutRecordEntry, operations func(node int) []topsv1.OperationRecord, pods func(node int) []corev1.Pod) *Input {
	last := record[len(record)-1]
	f := &display.Fleet{Resource: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "my-gr"}}, Now: minute(100).Time, Rollout: &topsv1.DaemonRollout{
		Status: topsv1.DaemonRolloutStatus{Revision: last.Revision, Record: record, Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/gfd", Hash: "new"}}}}}
	for i := range 10 {
		n := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
		n.Status.History = operations(i)
		f.NodeUpgrades = append(f.NodeUpgrades, n)
		f.Pods = append(f.Pods, pods(i)...)
	}
	return &Input{Fleet: f}
}

func noPods(int) []corev1.Pod { return nil }

// latest is the report of the newest upgrade.
func latest(in *Input) *Report {
	u, _ := Find(Upgrades(in.Fleet.Rollout.Status.Record), "", "")
	return Of(in, u)
}

// Three of ten nodes fail, and go back to the revision that the others never left.
func TestTheReportOfARollbackHasTheWorkOfGoingBack(t *testing.T) {
	record := []topsv1.RolloutRecordEntry{
		entry(-20, topsv1.RecordStarted, "r1", 10), entry(-10, topsv1.RecordComplete, "r1", 10),
		entry(0, topsv1.RecordStarted, "r2", 10), entry(9, topsv1.RecordHalted, "r2", 3), entry(10, topsv1.RecordRollingBack, "r2", 3),
		entry(11, topsv1.RecordNodesFailed, "r1", 1), entry(20, topsv1.RecordRolledBack, "r1", 10),
	}
	operations := func(node int) []topsv1.OperationRecord {
		first := done("first", "r1", -15)
		if node >= 3 {
			return []topsv1.OperationRecord{first}
		}
		failed := topsv1.OperationRecord{ID: "failed", Revision: "r2", Phase: topsv1.OperationFailed, StartTime: minute(2), EndTime: minute(8)}
		return []topsv1.OperationRecord{first, failed, done("back", "r1", 12+node)}
	}
	in := ten(record, operations, noPods)
	r := latest(in)
	back := 0
	for _, w := range r.Nodes {
		if w.GoesBack != (w.What == "back") {
			t.Errorf("going back is %v of %+v", w.GoesBack, w)
		}
		if w.GoesBack {
			back++
		}
	}
	if len(r.Nodes) != 6 || back != 3 || r.State != RolledBack {
		t.Errorf("%s, %d go back in %+v", r.State, back, r.Nodes)
	}
	if missing := strings.Join(r.Missing, "\n"); strings.Contains(missing, "work on") {
		t.Errorf("missing is %q", missing)
	}
	if text := r.Markdown(); strings.Count(text, "| Done | going back; ") != 3 {
		t.Errorf("the report is\n%s", text)
	}

	// While it goes on, only the status of the rollout says where it goes.
	in = ten(record[:5], operations, noPods)
	in.Fleet.Rollout.Status.Revision = "r1"
	in.Fleet.Rollout.Status.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1"}
	if r := latest(in); len(r.Nodes) != 6 {
		t.Errorf("while it goes on: %+v", r.Nodes)
	}
	in.Fleet.Rollout.Status.Rollback.From = "r3"
	if r := latest(in); len(r.Nodes) != 3 {
		t.Errorf("with another rollback: %+v", r.Nodes)
	}

	// Without operations, the pods tell. One of the nodes that went back got another pod since: its work is not known.
	in = ten(record, func(int) []topsv1.OperationRecord { return nil }, func(node int) []corev1.Pod {
		created := map[int]int{0: 12, 1: 13, 2: 50, 9: 5}[node] // 5 is before it goes back
		if created == 0 {
			created = -15
		}
		return []corev1.Pod{newPod(fmt.Sprint("node-", node), created, created+1, corev1.ConditionTrue)}
	})
	r = latest(in)
	if len(r.Nodes) != 2 || !r.Nodes[0].GoesBack || r.Nodes[0].Node != "node-0" || r.Nodes[1].Node != "node-1" {
		t.Errorf("pods that go back are %+v", r.Nodes)
	}
	if missing := strings.Join(r.Missing, "\n"); !strings.Contains(missing, "the work on 2 of 10 nodes, if there was any:") {
		t.Errorf("missing is %q", missing)
	}
}

// A request at the node, and the pod of a component without an operation, go back too.
func TestAllWorkOfGoingBackIsInTheReport(t *testing.T) {
	record := []topsv1.RolloutRecordEntry{entry(0, topsv1.RecordStarted, "r2", 10), entry(10, topsv1.RecordRollingBack, "r2", 3), entry(20, topsv1.RecordRolledBack, "r1", 10)}
	in := ten(record, func(node int) []topsv1.OperationRecord {
		if node > 0 {
			return nil
		}
		return []topsv1.OperationRecord{done("op", "r2", 2)}
	}, func(node int) []corev1.Pod {
		if node > 0 {
			return nil
		}
		return []corev1.Pod{newPod("node-0", 12, 13, corev1.ConditionTrue)}
	})
	in.Fleet.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gfd"}}}
	for i, id := range []string{"there", "back"} {
		status := &in.Fleet.NodeUpgrades[1].Status
		status.Requests = append(status.Requests, topsv1.UpgradeRequest{ID: id, DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "gfd"}, RequestTime: minute(3)})
		status.Tasks = append(status.Tasks, topsv1.UpgradeTask{Name: id, RequestID: id, State: topsv1.TaskDone, StartTime: at(4 + 10*i), EndTime: at(5 + 10*i)})
	}
	var got []string
	for _, w := range latest(in).Nodes {
		got = append(got, fmt.Sprint(w.What, " ", w.GoesBack))
	}
	if want := "op false, there false, kube-system/gfd true, back true"; strings.Join(got, ", ") != want {
		t.Errorf("the work is %q, want %q", got, want)
	}
}

// Nodes that had the revision when an upgrade began are not missing in its report.
func TestNodesThatHadTheRevisionAreNotMissing(t *testing.T) {
	limited := []topsv1.RolloutRecordEntry{
		entry(-20, topsv1.RecordStarted, "r1", 10), entry(-10, topsv1.RecordComplete, "r1", 2), entry(0, topsv1.RecordLimited, "r1", 10), entry(30, topsv1.RecordComplete, "r1", 10)}
	back := []topsv1.RolloutRecordEntry{
		entry(-20, topsv1.RecordStarted, "r2", 10), entry(-15, topsv1.RecordPaused, "r2", 0), entry(0, topsv1.RecordStarted, "r1", 10), entry(30, topsv1.RecordComplete, "r1", 10)}
	at := func(minutes func(node int) int) func(int) []corev1.Pod {
		return func(node int) []corev1.Pod {
			m := minutes(node)
			return []corev1.Pod{newPod(fmt.Sprint("node-", node), m, m+1, corev1.ConditionTrue)}
		}
	}
	none := func(int) []topsv1.OperationRecord { return nil }
	either := func(first bool, then, otherwise int) int {
		if first {
			return then
		}
		return otherwise
	}
	for _, tt := range []struct {
		name       string
		record     []topsv1.RolloutRecordEntry
		operations func(int) []topsv1.OperationRecord
		pods       func(int) []corev1.Pod
		missing    int
	}{
		{"two nodes first, by operations", limited, func(n int) []topsv1.OperationRecord {
			return []topsv1.OperationRecord{done("x", "r1", either(n < 2, -15, 5+n))}
		}, noPods, 0},
		{"two nodes first, by pods", limited, none, at(func(n int) int { return either(n < 2, -15, 5+n) }), 0},
		{"two nodes first, by the record only", limited, func(n int) []topsv1.OperationRecord {
			if n < 2 {
				return nil
			}
			return []topsv1.OperationRecord{done("x", "r1", 5+n)}
		}, noPods, 2},
		{"a person goes back after three nodes, by operations", back, func(n int) []topsv1.OperationRecord {
			if n < 3 {
				return []topsv1.OperationRecord{done("first", "r1", -60), done("x", "r2", -18), done("y", "r1", 5+n)}
			}
			return []topsv1.OperationRecord{done("first", "r1", -60)}
		}, noPods, 0},
		{"a person goes back after three nodes, by pods", back, none, at(func(n int) int { return either(n < 3, 5+n, -60) }), 0},
		{"the operations that went back are kept no longer", back, func(n int) []topsv1.OperationRecord {
			if n < 3 {
				return []topsv1.OperationRecord{done("first", "r1", -60), done("x", "r2", -18)}
			}
			return []topsv1.OperationRecord{done("first", "r1", -60)}
		}, noPods, 3},
		{"an operation that did not end well says nothing", back, func(n int) []topsv1.OperationRecord {
			o := done("first", "r1", -60)
			if n < 3 {
				o.Phase = topsv1.OperationDeferred
			}
			return []topsv1.OperationRecord{o}
		}, noPods, 3},
		{"pods that were replaced after the end say nothing", back, none, at(func(n int) int { return either(n < 3, 60, -60) }), 3},
		{"one of two pods of a node is not at its target", back, none, func(n int) []corev1.Pod {
			pods := at(func(int) int { return -60 })(n)
			if n < 3 {
				old := newPod(fmt.Sprint("node-", n), -60, -59, corev1.ConditionTrue)
				old.Labels["controller-revision-hash"] = "old"
				pods = append(pods, old)
			}
			return pods
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := ""
			if tt.missing > 0 {
				want = fmt.Sprintf("the work on %d of 10 nodes, if there was any:", tt.missing)
			}
			if missing := strings.Join(latest(ten(tt.record, tt.operations, tt.pods)).Missing, "\n"); want == "" && strings.Contains(missing, "work on") || !strings.Contains(missing, want) {
				t.Errorf("missing is %q, want %q", missing, want)
			}
		})
	}
}
