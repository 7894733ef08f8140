package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// An operation that failed keeps its id when it is resumed by a retry or a skip, and its entry in the history until it ends again.
func TestAnOperationThatIsResumedKeepsItsFailedAttempt(t *testing.T) {
	task := func(name string, start, end *metav1.Time) topsv1.OperationTask {
		return topsv1.OperationTask{Name: "node-2_" + name, StartTime: start, EndTime: end}
	}
	prepared := []topsv1.OperationTask{task("driver_prepull", at(1), at(2)), task("node_precheck", at(1), at(2))}
	begun := slices.Concat(prepared, []topsv1.OperationTask{task("node_cordon", at(3), at(3)), task("driver_replace", at(4), at(5)), task("node_evict", nil, at(21)), task("odd", at(1), at(1))})
	record := func(phase topsv1.OperationPhase, start, end int) topsv1.OperationRecord {
		return topsv1.OperationRecord{ID: "op-2", Revision: "r2", Phase: phase, StartTime: minute(start), EndTime: minute(end)}
	}
	status := func(phase topsv1.OperationPhase, start int, end *metav1.Time, tasks []topsv1.OperationTask) *topsv1.OperationStatus {
		return &topsv1.OperationStatus{ID: "op-2", Revision: "r2", Phase: phase, StartTime: minute(start), EndTime: end, Tasks: tasks}
	}
	for _, tt := range []struct {
		name      string
		history   topsv1.OperationRecord
		operation *topsv1.OperationStatus
		want      string
		missing   bool
	}{
		{"it failed", record(topsv1.OperationFailed, 3, 9), status(topsv1.OperationFailed, 3, at(9), begun), "Failed 3-9", false},
		{"it runs again", record(topsv1.OperationFailed, 3, 9), status(topsv1.OperationRunning, 21, nil, begun), "Failed 3-9, Running 21-", false},
		{"it ended again", record(topsv1.OperationDone, 21, 25), status(topsv1.OperationDone, 21, at(25), begun), "Unknown 3-, Done 21-25", true},
		{"it runs for the third time", record(topsv1.OperationFailed, 21, 25), status(topsv1.OperationRunning, 27, nil, begun), "Unknown 3-, Failed 21-25, Running 27-", true},
		{"it was prepared long before it was granted", record(topsv1.OperationDone, 21, 25), status(topsv1.OperationDone, 21, at(25), prepared), "Done 21-25", false},
		{"another one followed", record(topsv1.OperationDone, 21, 25), nil, "Done 21-25", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input()
			n := topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
			n.Status.History, n.Status.Operation = []topsv1.OperationRecord{tt.history}, tt.operation
			in.Fleet.NodeUpgrades, in.Fleet.Pods = []topsv1.NodeUpgrade{n}, nil
			r := latest(in)
			var got []string
			for _, w := range r.Nodes {
				end := ""
				if w.Ended != nil {
					end = fmt.Sprint(w.Ended.Sub(noon).Minutes())
				}
				got = append(got, fmt.Sprintf("%s %v-%s", w.Result, w.Began.Sub(noon).Minutes(), end))
				if running := w.Result == string(topsv1.OperationRunning); w.endUnknown == (running || end != "") {
					t.Errorf("its end is not known: %v of %+v", w.endUnknown, w)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("the work is %q, want %s", got, tt.want)
			}
			if missing := strings.Join(r.Missing, "\n"); strings.Contains(missing, "how and when 1 operation ended before a retry or skip: node-2") != tt.missing {
				t.Errorf("missing is %q", missing)
			}
		})
	}
}
