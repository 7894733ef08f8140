package operation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestEventsOf(t *testing.T) {
	running := func(change func(*topsv1.OperationStatus)) *topsv1.OperationStatus {
		op := &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning, Granted: true, Rollout: "ns/gr"}
		if change != nil {
			change(op)
		}
		return op
	}
	blocked := func(message string) *topsv1.OperationStatus {
		return running(func(op *topsv1.OperationStatus) { op.Reason, op.Message = "DrainBlocked", message })
	}
	ended := func(phase topsv1.OperationPhase, held bool) *topsv1.OperationStatus {
		return running(func(op *topsv1.OperationStatus) {
			op.Phase, op.Held, op.EndTime, op.Reason, op.Message = phase, held, ptr.To(metav1.NewTime(noon)), "Why", "because"
		})
	}
	for _, tc := range []struct {
		name          string
		before, after *topsv1.OperationStatus
		want          []string
	}{
		{"nothing is told of no operation", nil, nil, nil},
		{"one that has no slot is not told", nil, running(func(op *topsv1.OperationStatus) { op.Granted = false }), nil},
		{"one that has its slot is", nil, running(nil), []string{"Normal Started operation op has its slot from ns/gr"}},
		{"once", running(nil), running(func(op *topsv1.OperationStatus) { op.Task = "t" }), nil},
		{"another operation is another one", running(func(op *topsv1.OperationStatus) { op.ID = "old" }),
			running(func(op *topsv1.OperationStatus) { op.Purpose = topsv1.PurposeRollback }), []string{"Normal Started operation op has its slot from ns/gr: a rollback"}},
		{"what holds a drain is told", running(nil), blocked("a budget"), []string{"Warning DrainBlocked a budget"}},
		{"once per message", blocked("a budget"), blocked("a budget"), nil},
		{"and again when it is another", blocked("a budget"), blocked("another"), []string{"Warning DrainBlocked another"}},
		{"success", running(nil), ended(topsv1.OperationDone, false), []string{"Normal Done operation op is done"}},
		{"a deferral", running(nil), ended(topsv1.OperationDeferred, false), []string{"Warning Deferred operation op: Why: because"}},
		{"an abort", running(nil), ended(topsv1.OperationAborted, false), []string{"Normal Aborted operation op: Why: because"}},
		{"a failure says what to do", running(nil), ended(topsv1.OperationFailed, true), []string{"Warning Failed operation op: Why: because; the node stays cordoned: " +
			"retry or skip the task (annotation topsops.enflame.com/task-override), abort the operation, or wait for another one"}},
		{"a quarantine too", running(nil), ended(topsv1.OperationQuarantined, true), []string{"Warning Quarantined operation op: Why: because; the node stays cordoned: " +
			"retry or skip the task (annotation topsops.enflame.com/task-override), abort the operation, or wait for another one"}},
		{"the end is told once", ended(topsv1.OperationFailed, true), ended(topsv1.OperationFailed, false), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, e := range EventsOf(tc.before, tc.after) {
				got = append(got, e.Type+" "+e.Reason+" "+e.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
