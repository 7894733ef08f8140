package operation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// prepared runs an operation without a slot until it waits for one.
func prepared(t *testing.T, changed ...string) Facts {
	t.Helper()
	w := newWorld(t, 7)
	for _, c := range changed {
		w.member(c).newest = "v2"
	}
	w.offer("op", changed...)
	w.nu.Spec.Operation.Purpose, w.nu.Spec.Operation.Granted = topsv1.PurposeUpgrade, false
	machine := newMachine(t)
	for range 50 {
		w.now = w.now.Add(3 * time.Second)
		w.agent(func() bool { return false })
		d := machine.Next(w.facts())
		if len(d.Effects) > 0 {
			t.Fatalf("effects without a slot: %s", summaryOf(d))
		}
		w.store(d.Record, w.nuAt)
		if d.Record.Operation.Reason == ReasonAwaitingSlot {
			return w.facts()
		}
	}
	t.Fatal("it is not prepared")
	return Facts{}
}

func granted(f *Facts) { f.Wanted.Granted = true }

func TestAnOperationWithoutASlotIsPreparedAndWaits(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changed []string
		with    []func(*Facts)
		want    string
	}{
		{"it waits with no task", everything, nil, "Running AwaitingSlot"},
		{"longer than an operation may take", everything, []func(*Facts){later(100 * time.Hour)}, "Running AwaitingSlot"},
		{"a job that has nothing to prepare is prepared at once", []string{upgradeplan.TargetNFD}, nil, "Running AwaitingSlot"},
		{"the grant is recorded before anything is done", everything, []func(*Facts){granted}, "Running AwaitingSlot"},
		{"a node that is offline meanwhile is waited for", everything, []func(*Facts){offline}, "Running NodeOffline"},
		{"and deferred when it is lost", everything, []func(*Facts){offline, later(15 * time.Minute)}, "Releasing then Deferred NodeLost"},
		{"an abort ends it at once", everything, []func(*Facts){func(f *Facts) { f.Wanted.Abort = true }}, "Aborted Withdrawn"},
		{"an abort of a grant that is not recorded yet counts as that of a started one", everything, []func(*Facts){granted, func(f *Facts) { f.Wanted.Abort = true }}, "Aborted Aborted"},
		{"so does another operation", everything, []func(*Facts){func(f *Facts) { f.Wanted.ID = "next" }}, "Aborted Superseded"},
		{"so does the end of the rollout", everything, []func(*Facts){func(f *Facts) { f.Wanted = nil }}, "Aborted Withdrawn"},
		{"a newer revision ends it", everything, []func(*Facts){func(f *Facts) { f.Members[1].Newest = "v3" }}, "Releasing then Aborted TargetChanged"},
		{"a node that lacks something again is not prepared", everything,
			[]func(*Facts){func(f *Facts) { f.Node.OtherUpgrader = "kured" }}, "Running node_precheck PrecheckFailed"},
		{"nor is one whose agent fell silent", everything,
			[]func(*Facts){func(f *Facts) { f.Now = f.Now.Add(time.Hour) }}, "Running node_precheck PrecheckFailed"},
		{"a pull is retried without a slot", everything, []func(*Facts){override("retry:n1_driver_prepull"), result("driver_prepull", "Running")}, "Running driver_prepull InProgress"},
		{"so is a precheck", everything, []func(*Facts){override("retry:n1_node_precheck")}, "Running node_precheck InProgress"},
		{"a task that touches the node is not", everything, []func(*Facts){override("retry:n1_node_cordon")}, "Running AwaitingSlot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decides(t, prepared(t, tc.changed...), tc.want, tc.with...)
		})
	}
}

func TestAPreparationThatTakesTooLongIsDeferred(t *testing.T) {
	f := prepared(t, everything...)
	f.Operation.PreparedTime = nil
	later(2 * time.Hour)(&f)
	if got := summaryOf(newMachine(t).Next(f)); got != "Releasing then Deferred OperationDeadline" {
		t.Error(got)
	}
}

// TestAGrantLooksAgain covers the way from the grant to the cordon.
func TestAGrantLooksAgain(t *testing.T) {
	f := prepared(t, everything...)
	preparedAt := f.Operation.PreparedTime
	later(5 * time.Hour)(&f)
	*f.Host.Devices = 7 // a card broke while the node waited
	granted(&f)
	f.Record = newMachine(t).Next(f).Record
	op := f.Operation
	if !op.Granted || !op.StartTime.Equal(&metav1.Time{Time: f.Now}) || !op.PreparedTime.Equal(preparedAt) {
		t.Errorf("granted %v, started %s, prepared %s", op.Granted, op.StartTime, op.PreparedTime)
	}
	broken := f
	broken.Node.OtherUpgrader = "kured"
	if got := summaryOf(newMachine(t).Next(broken)); got != "Running node_precheck PrecheckFailed" {
		t.Errorf("with somebody else at work: %s", got)
	}
	f.Record = newMachine(t).Next(f).Record
	if got := f.Operation.Before; got == nil || got.Devices != 7 {
		t.Errorf("what the node showed before: %+v", got)
	}
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running node_cordon InProgress Cordon" {
		t.Fatal(got)
	}
	f.Record = d.Record
	f.Node.OtherUpgrader = "kured"
	if got := summaryOf(newMachine(t).Next(f)); !strings.HasPrefix(got, "Running node_cordon") {
		t.Errorf("once the node was disturbed: %s", got)
	}
	later(2*time.Hour - time.Second)(&f)
	if d := newMachine(t).Next(f); d.Record.Operation.Reason == ReasonOperationDeadline {
		t.Error("its deadline counts from before the grant")
	}
}

// No event says that a budget allows an eviction again.
func TestAPrecheckThatABudgetRefusesLooksAgainSoon(t *testing.T) {
	f := prepared(t, everything...)
	f.Operation.Before, f.Drained = nil, Drained{Stuck: true, Message: "a budget refuses"}
	if d := newMachine(t).Next(f); d.After == 0 || d.After > eviction.RetryInterval {
		t.Errorf("%s, looks again after %s", summaryOf(d), d.After)
	}
}

// TestANodeThatHasJustBootedIsGivenTimeToOfferItsCards: zero recorded before the upgrade
// would prove nothing after it.
func TestANodeThatHasJustBootedIsGivenTimeToOfferItsCards(t *testing.T) {
	f := prepared(t, everything...)
	offered := f.Node.Allocatable["enflame.com/gcu"]
	f.Node.Allocatable["enflame.com/gcu"] = 0
	granted(&f)
	f.Record = newMachine(t).Next(f).Record
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running node_precheck InProgress" || d.After == 0 {
		t.Fatalf("%s, looks again after %s", got, d.After)
	}
	f.Record = d.Record

	back := f
	back.Node.Allocatable = map[string]int64{"enflame.com/gcu": offered}
	if got := newMachine(t).Next(back).Record.Operation.Before; got == nil || got.Allocatable["enflame.com/gcu"] != offered {
		t.Errorf("when the cards are back: %+v", got)
	}
	broken := f
	later(offerGrace)(&broken)
	if got := newMachine(t).Next(broken).Record.Operation.Before; got == nil || got.Allocatable["enflame.com/gcu"] != 0 {
		t.Errorf("a node that stays broken: %+v", got)
	}
	without := f
	none := int32(0)
	without.Host = f.Host.DeepCopy()
	without.Host.Devices = &none
	if got := newMachine(t).Next(without).Record.Operation.Before; got == nil {
		t.Error("a node without cards is waited for")
	}
}

// An older CRD drops status.operation.granted: what the node was before it was touched stays the measure, also if an operation that
// failed was to show that.
func TestAGrantThatIsRecordedAgainKeepsWhatTheNodeWasBefore(t *testing.T) {
	for name, f := range map[string]Facts{
		"the driver is replaced":            reach(t, "driver_verify", everything...),
		"the node is being drained":         reach(t, "node_evict", everything...),
		"the cordon of another taken over":  handedOver(t),
		"what it touched is all that is on": func() Facts { f := reach(t, "driver_verify", everything...); f.Operation.Tasks = nil; return f }(),
	} {
		t.Run(name, func(t *testing.T) {
			before, started := f.Operation.Before.DeepCopy(), f.Operation.StartTime
			if before == nil || before.Devices != 8 {
				t.Fatalf("the node was %+v before", before)
			}
			f.Operation.Granted = false
			*f.Host.Devices = 7
			later(10 * time.Second)(&f)
			for range 3 {
				f.Record = newMachine(t).Next(f).Record
				op := f.Operation
				if diff := cmp.Diff(before, op.Before); diff != "" || !op.Granted || !op.StartTime.Equal(&started) {
					t.Fatalf("granted %v, started %s, was %s; before (-want +got):\n%s", op.Granted, op.StartTime, started, diff)
				}
			}
		})
	}
}

// The driver that took a card away is not verified, and its node does not go back into service.
func TestALostGrantProvesNoDriver(t *testing.T) {
	f := reach(t, "driver_verify", everything...)
	f.Operation.Granted = false
	*f.Host.Devices = 7
	result("driver_verify", "Done")(&f)
	later(10 * time.Second)(&f)
	for range 3 {
		f.Record = newMachine(t).Next(f).Record
	}
	if op := f.Operation; op.Task != theNode+"_driver_verify" || op.Message != "7 cards found, 8 needed" {
		t.Errorf("%s %s: %s", op.Task, op.Reason, op.Message)
	}
	later(6 * time.Minute)(&f)
	if got := summaryOf(newMachine(t).Next(f)); got != "Failed held driver_verify VerifyFailed" {
		t.Error(got)
	}
	f.Host.DriverVersion = "" // and a node without a driver is not deferred by a precheck
	if got := summaryOf(newMachine(t).Next(f)); got != "Failed held driver_verify VerifyFailed" {
		t.Errorf("no driver is loaded: %s", got)
	}
}
