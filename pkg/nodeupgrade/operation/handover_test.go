package operation

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// handedOver returns the facts after an operation failed and kept its node cordoned, and another one of its rollout took the cordon
// over, which does not pass its prechecks yet.
func handedOver(t *testing.T) Facts {
	t.Helper()
	f := reach(t, "driver_verify", everything...)
	later(5 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	if op := f.Record.Operation; !op.Held || f.Node.Cordon.Mark != op.ID {
		t.Fatalf("the node is not kept cordoned: %s, marked %q", op.Phase, f.Node.Cordon.Mark)
	}
	f.Wanted = f.Wanted.DeepCopy()
	f.Wanted.ID, f.Node.Taint = "next", ""
	f.Record = newMachine(t).Next(f).Record
	if op := f.Record.Operation; op.ID != "next" || op.CordonedBy != "op" {
		t.Fatalf("operation %s began, with the cordon of %q", op.ID, op.CordonedBy)
	}
	f.Node.OtherUpgrader = "kured"
	f.Record = newMachine(t).Next(f).Record
	return f
}

// A node that an operation failed on and that the next one did not touch still has on it what failed.
func TestANodeThatTheNextOperationDoesNotReplaceAnythingOnStaysCordoned(t *testing.T) {
	for _, tc := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"deferred by its prechecks", []func(*Facts){later(10 * time.Minute)}, "Deferred held node_precheck PrecheckFailed"},
		{"replaced by another one", []func(*Facts){func(f *Facts) { f.Wanted.ID = "third" }}, "Aborted held node_precheck Superseded"},
		{"of another target", []func(*Facts){func(f *Facts) {
			for i := range f.Members {
				f.Members[i].Newest = "v3"
			}
		}}, "Aborted held node_precheck TargetChanged"},
		{"aborted by a person", []func(*Facts){func(f *Facts) { f.Wanted.Abort = true }}, "Releasing then Aborted node_precheck Aborted Uncordon"},
		{"at the end of its rollout", []func(*Facts){func(f *Facts) { f.Wanted = nil }}, "Releasing then Aborted node_precheck Withdrawn Uncordon"},
		{"on a new Node object", []func(*Facts){func(f *Facts) { f.Node.UID, f.Node.Cordon.Mark = "new", "" }}, "Aborted NodeReplaced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := handedOver(t)
			f.Wanted = f.Wanted.DeepCopy()
			for _, with := range tc.with {
				with(&f)
			}
			d := newMachine(t).Next(f)
			for range 5 {
				if Over(d.Record.Operation) || d.Record.Operation.Held || len(d.Effects) > 0 {
					break
				}
				f.Record = d.Record
				d = newMachine(t).Next(f)
			}
			if got := summaryOf(d); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheCordonIsHandedOnUntilAnOperationIsDone(t *testing.T) {
	f := handedOver(t)
	later(10 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	f.Wanted = f.Wanted.DeepCopy()
	f.Wanted.ID, f.Node.OtherUpgrader = "third", ""
	f.Record = newMachine(t).Next(f).Record
	op := f.Record.Operation
	if op.ID != "third" || CordonMark(op) != "op" || f.Node.Cordon.Mark != "op" {
		t.Fatalf("operation %s began, with the cordon of %q; the node has that of %q", op.ID, CordonMark(op), f.Node.Cordon.Mark)
	}
	if d := newMachine(t).Next(f); len(d.Effects) > 0 {
		t.Errorf("the cordon of an earlier operation is taken for a leftover: %s", summaryOf(d))
	}
	op.Phase, op.Outcome, op.Touched = topsv1.OperationReleasing, topsv1.OperationDone, true
	if got := summaryOf(newMachine(t).Next(f)); got != "Releasing then Done InProgress Uncordon" {
		t.Error(got)
	}
}
