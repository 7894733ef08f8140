package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// The time of a drain counts like the deadline of its task: waitForJobsSeconds would be over, or never, by the clock of another manager.
func TestTheTimeOfADrainCountsLikeItsDeadline(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	began, worked := now.Add(-5*time.Minute), now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		recorded, worked, ready time.Time
		want                    eviction.Start
	}{
		"this manager began it":                           {began, began.Add(-time.Hour), time.Time{}, eviction.StartAt(began)},
		"another one did":                                 {began, worked, time.Time{}, eviction.Start{Recorded: began.Add(-daemonset.MaxSkew), Counted: worked}},
		"the node was offline since":                      {began, began.Add(-time.Hour), worked, eviction.Start{Recorded: began, Counted: worked}},
		"another one did, whose clock was behind":         {began.Add(-3 * time.Hour), worked, time.Time{}, eviction.Start{Recorded: began.Add(-3*time.Hour - daemonset.MaxSkew), Counted: worked}},
		"another one did, whose clock was a little ahead": {worked.Add(-time.Second), worked, time.Time{}, eviction.Start{Recorded: worked.Add(-time.Second - daemonset.MaxSkew), Counted: worked}},
		"another one did, whose clock was ahead":          {began.Add(3 * time.Hour), worked, time.Time{}, eviction.Start{Counted: worked}},
		"it has not begun, and the node was silent":       {time.Time{}, worked, time.Time{}, eviction.StartAt(now)},
	} {
		op := &topsv1.OperationStatus{ID: "op", Tasks: []topsv1.OperationTask{{Name: "n1_node_cordon", StartTime: &metav1.Time{Time: began}}, {Name: "n1_node_evict"}}}
		if !tc.recorded.IsZero() {
			op.Tasks[1].StartTime = &metav1.Time{Time: tc.recorded}
		}
		f := Facts{Now: now, WorkedSince: tc.worked, Node: Node{Since: tc.ready}, Record: Record{Operation: op}}
		if got := DrainStart(f); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
