package operation

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// An older CRD drops status.operation.held. The mark says that the node was not released: it goes before the end is recorded.
func TestANodeWithTheMarkOfWhatFailedIsHeld(t *testing.T) {
	deferred := func(t *testing.T) Facts {
		f := handedOver(t)
		later(10 * time.Minute)(&f)
		f.Record = newMachine(t).Next(f).Record
		return f
	}
	closed := func(t *testing.T) Facts { // with the driver-upgrade taint
		f := keptCordoned(t)
		f.Wanted, f.Node.Taint = f.Wanted.DeepCopy(), "op"
		f.Wanted.ID = "op"
		return f
	}
	for _, tc := range []struct {
		name string
		of   func(*testing.T) Facts
		with func(*Facts)
		want [2]string
	}{
		{"it failed", closed, func(*Facts) {}, [2]string{"Failed held driver_verify VerifyFailed", "Failed held driver_verify VerifyFailed"}},
		{"a rollback failed", closed, func(f *Facts) { f.Operation.Phase = topsv1.OperationQuarantined }, [2]string{"Quarantined held driver_verify VerifyFailed", "Quarantined held driver_verify VerifyFailed"}},
		{"another one takes over", keptCordoned, func(*Facts) {}, [2]string{"Failed held driver_verify VerifyFailed", "Running InProgress"}},
		{"it took the cordon over", deferred, func(*Facts) {}, [2]string{"Deferred held node_precheck PrecheckFailed", "Deferred held node_precheck PrecheckFailed"}},
		{"the rollout ends", closed, func(f *Facts) { f.Wanted = nil }, [2]string{"Failed held driver_verify VerifyFailed", "Releasing then Failed driver_verify VerifyFailed UntaintDevice"}},
		{"it was released", closed, func(f *Facts) { f.Node.Cordon.Mark, f.Node.Cordon.Unschedulable, f.Node.Taint = "", false, "" },
			[2]string{"Failed driver_verify VerifyFailed", "Failed driver_verify VerifyFailed"}},
		{"it touched nothing: a late cordon", closed, func(f *Facts) {
			f.Operation.Touched, f.Node.Taint, f.Operation.Phase = false, "", topsv1.OperationDeferred
			f.Operation.Tasks = nil
		},
			[2]string{"Deferred driver_verify VerifyFailed Uncordon", "Deferred driver_verify VerifyFailed Uncordon"}},
		{"it was done: a late cordon", deferred, func(f *Facts) { f.Operation.Phase = topsv1.OperationDone }, [2]string{"Done node_precheck PrecheckFailed Uncordon", "Done node_precheck PrecheckFailed Uncordon"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.of(t)
			f.Operation.Held = false
			tc.with(&f)
			for _, want := range tc.want {
				d := newMachine(t).Next(f)
				if got := summaryOf(d); got != want {
					t.Fatalf("%s, want %s", got, want)
				}
				f.Record = d.Record
			}
		})
	}
}

// An older CRD drops spec.operation.nodeUID: then the Node object of the name is meant, as long as there is one.
func TestAnOperationGoesOnThoughItsNodesUIDWasDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		with func(*Facts)
		want string
	}{
		"it goes on":                     {func(f *Facts) { f.Wanted.NodeUID = "" }, "Running driver_verify InProgress"},
		"the Node object is gone":        {func(f *Facts) { f.Wanted.NodeUID, f.Node = "", Node{Name: theNode} }, "Aborted NodeReplaced"},
		"the Node object is another one": {func(f *Facts) { f.Node = Node{Name: theNode, UID: "other", Ready: true} }, "Aborted NodeReplaced"},
	} {
		f := reach(t, "driver_verify", everything...)
		f.Wanted = f.Wanted.DeepCopy()
		tc.with(&f)
		d := newMachine(t).Next(f)
		for range 3 {
			f.Record = d.Record
			d = newMachine(t).Next(f)
		}
		if got := summaryOf(d); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
