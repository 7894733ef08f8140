package notification

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

var noon = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func rollout(entries ...topsv1.RolloutRecordEntry) *topsv1.DaemonRollout {
	return &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "my-gr", UID: "u"},
		Spec:   topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "my-gr"}},
		Status: topsv1.DaemonRolloutStatus{Record: entries}}
}

func halted() topsv1.RolloutRecordEntry {
	return topsv1.RolloutRecordEntry{Time: noon, Event: topsv1.RecordHalted, Revision: "r2", Nodes: 3, Message: "3 nodes failed", Pending: true}
}

func pending(t *testing.T, dro *topsv1.DaemonRollout) []Message {
	t.Helper()
	list, err := Pending(dro)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestANotificationIsAValidCloudEvent(t *testing.T) {
	list := pending(t, rollout(halted()))
	if len(list) != 1 {
		t.Fatalf("%d notifications", len(list))
	}
	var got event.Event
	if err := json.Unmarshal(list[0].Body, &got); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	var data Data
	if err := got.DataAs(&data); err != nil {
		t.Fatal(err)
	}
	want := Data{Kind: "GcuResource", Name: "my-gr", Event: "Halted", Revision: "r2", Nodes: 3, Message: "3 nodes failed"}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if got.Type() != "com.enflame.topsops.rollout.halted.v1" || got.Subject() != "GcuResource/my-gr" || !got.Time().Equal(noon.Time) || got.ID() != list[0].ID {
		t.Errorf("the event is %s", list[0].Body)
	}
}

// What is sent again is the same, byte by byte, whatever happened since; what is something else has another id.
func TestTheIDIsThatOfWhatHappened(t *testing.T) {
	first := pending(t, rollout(halted()))[0]
	later := rollout(topsv1.RolloutRecordEntry{Time: noon, Event: topsv1.RecordStarted, Revision: "r2"}, halted())
	later.ResourceVersion, later.Status.FailedNodes = "7", 9
	if diff := cmp.Diff(first, pending(t, later)[0]); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	for name, change := range map[string]func(*topsv1.DaemonRollout, *topsv1.RolloutRecordEntry){
		"another object":   func(dro *topsv1.DaemonRollout, _ *topsv1.RolloutRecordEntry) { dro.UID = "v" },
		"another event":    func(_ *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) { e.Event = topsv1.RecordComplete },
		"another revision": func(_ *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) { e.Revision = "r3" },
		"another wave":     func(_ *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) { e.Subject = "main" },
		"another time": func(_ *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) {
			e.Time = metav1.NewTime(noon.Add(time.Second))
		},
	} {
		dro := rollout(halted())
		change(dro, &dro.Status.Record[0])
		if got := pending(t, dro)[0].ID; got == first.ID {
			t.Errorf("%s has the same id", name)
		}
	}
}

func TestWhichEntriesAreSent(t *testing.T) {
	delivered := halted()
	delivered.Pending = false
	started := topsv1.RolloutRecordEntry{Time: noon, Event: topsv1.RecordStarted, Pending: true}
	if got := pending(t, rollout(delivered, started)); len(got) != 0 {
		t.Errorf("%d are sent", len(got))
	}
	for _, e := range []topsv1.RolloutEvent{topsv1.RecordHalted, topsv1.RecordAwaitingApproval, topsv1.RecordComplete, topsv1.RecordRolledBack} {
		if !IsSent(e) {
			t.Errorf("%s is not sent", e)
		}
	}
}

func TestMarksGoWhenTheyWereDelivered(t *testing.T) {
	other := halted()
	other.Revision = "r3"
	dro := rollout(halted(), other)
	id := pending(t, dro)[0].ID
	is := func(record []topsv1.RolloutRecordEntry) [2]bool { return [2]bool{record[0].Pending, record[1].Pending} }
	if got := is(Unmark(dro, dro.Status.Record, true, func(got string) bool { return got == id })); got != [2]bool{false, true} {
		t.Errorf("pending are %v", got)
	}
	if got := is(Unmark(dro, dro.Status.Record, false, func(string) bool { return false })); got != [2]bool{} {
		t.Errorf("without notifications, pending are %v", got)
	}
	if got := is(dro.Status.Record); got != [2]bool{true, true} {
		t.Error("the stored record was changed")
	}
}
