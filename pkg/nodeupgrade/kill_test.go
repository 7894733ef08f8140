package nodeupgrade

import (
	"fmt"
	"maps"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// aftermath is the state after the end.
type aftermath struct {
	How, Marks, Revisions string
	Created               string
	Tasks                 string
}

// play runs an operation whose process dies after killAfter writes; 0: never. It returns the
// final state and the number of writes.
func play(t *testing.T, killAfter int) (aftermath, int) {
	t.Helper()
	s := newStage(t, driver, plugin)
	s.workload("train")
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.line.killAfter = killAfter
	deleted := s.line.deleted
	for range 200 {
		if op := s.upgrade().Status.Operation; op != nil && op.Phase.Final() && !s.line.dead {
			break
		}
		s.turn()
		if s.line.dead {
			s.start()
			maps.Copy(s.line.deleted, deleted)
			deleted = s.line.deleted
		}
	}
	s.turn() // leftovers are swept
	s.turn()
	for pod, n := range deleted {
		if n > 1 {
			t.Errorf("pod %s was deleted %d times", pod, n)
		}
	}
	nu := s.upgrade()
	o := aftermath{How: s.untilOver(), Marks: s.marks(), Revisions: s.revisions(), Created: fmt.Sprint(s.created)}
	for _, task := range nu.Status.Operation.Tasks {
		o.Tasks += fmt.Sprintf("%s %s %d, ", task.Name[len(s.node)+1:], task.State, task.Attempts)
	}
	if got := len(nu.Status.History); got != 1 || nu.Status.History[0].Phase != topsv1.OperationDone {
		t.Errorf("the history has %d operations", got)
	}
	return o, len(s.line.writes)
}

// TestAProcessThatDiesAfterAnyWriteArrives: after any write another process can take over,
// with the same end and no pod deleted twice.
func TestAProcessThatDiesAfterAnyWriteArrives(t *testing.T) {
	want, writes := play(t, 0)
	if want.How != "Done Succeeded" || want.Marks != "" || writes < 15 {
		t.Fatalf("the undisturbed one: %+v, after %d writes", want, writes)
	}
	for n := 1; n <= writes; n++ {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			t.Parallel()
			if got, _ := play(t, n); got != want {
				t.Errorf("killed after write %d of %d: %+v, want %+v", n, writes, got, want)
			}
		})
	}
}
