package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestSuperfluousRecordsAreTheOldestThatEnded(t *testing.T) {
	noon := time.Date(2023, 5, 24, 12, 0, 0, 0, time.UTC)
	records := map[string]Record{}
	for i, state := range []topsv1.HostTaskState{topsv1.HostTaskDone, topsv1.HostTaskRunning, topsv1.HostTaskFailed, topsv1.HostTaskRunning, topsv1.HostTaskDone} {
		at := noon.Add(time.Duration(i) * time.Second)
		r := Record{Result: Result{ID: fmt.Sprint("op-", i), Task: "a_b", State: state, Started: at}}
		if state != topsv1.HostTaskRunning {
			r.Result.Finished = at
		}
		if i == 1 {
			r.Begun = &Begun{} // a restart that may still take effect
		}
		records[r.Key()] = r
	}
	if diff := cmp.Diff([]string{"op-0_a_b", "op-2_a_b", "op-3_a_b"}, Superfluous(records, 1, noon.Add(time.Hour))); diff != "" {
		t.Errorf("keeping one (-want +got):\n%s", diff)
	}
	if got := Superfluous(records, 4, noon.Add(time.Hour)); got != nil {
		t.Errorf("keeping four of four: %v", got)
	}
}

// The clock of the node was set back after op-1 and op-2, and before op-3: an operation that is not over may need its result,
// and a restart without a record is made again.
func TestRecordsOfBeforeTheClockWasSetBackAreOlder(t *testing.T) {
	noon := time.Date(2023, 5, 24, 12, 0, 0, 0, time.UTC)
	records := map[string]Record{}
	for i, at := range []time.Duration{-4 * time.Hour, 0, time.Minute, -3 * time.Hour} {
		r := Record{Result: Result{ID: fmt.Sprint("op-", i), Task: "a_b", State: topsv1.HostTaskDone, Started: noon.Add(at), Finished: noon.Add(at)}}
		records[r.Key()] = r
	}
	for keep, want := range map[int][]string{2: {"op-1_a_b", "op-2_a_b"}, 3: {"op-1_a_b"}} {
		if diff := cmp.Diff(want, Superfluous(records, keep, noon.Add(-3*time.Hour))); diff != "" {
			t.Errorf("keeping %d (-want +got):\n%s", keep, diff)
		}
	}
}
