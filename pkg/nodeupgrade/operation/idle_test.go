package operation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func usedBy(names ...string) func(*Facts) { return func(f *Facts) { f.CardUsers = names } }

// withoutRequest returns an operation that nobody asked for, prepared on an idle node.
func withoutRequest(t *testing.T) Facts {
	f := prepared(t, toolkitOnly...)
	f.Wanted.OnlyIdle = true
	return f
}

func container(name string) func(*Facts) {
	return func(f *Facts) {
		f.Host = f.Host.DeepCopy()
		f.Host.DeviceHolders = []topsv1.DeviceHolder{{PID: 7, Command: "train", Container: name, Device: "/dev/gcu0"}}
	}
}

// stopsAll has the restart stop the containers of the node.
func stopsAll(f *Facts) {
	f.Host = f.Host.DeepCopy()
	f.Host.Runtime.RestartStopsContainers = ptr.To(true)
	f.Operation.DrainAll = true
}

func keepsAll(f *Facts) {
	f.Host = f.Host.DeepCopy()
	f.Host.Runtime.RestartStopsContainers = ptr.To(false)
	f.Operation.DrainAll = false
}

func TestAnOperationWithoutARequestWaitsOnANodeInUse(t *testing.T) {
	for _, tc := range []struct {
		name  string
		with  []func(*Facts)
		want  string
		inUse bool
	}{
		{"an idle node waits for its slot", nil, "Running AwaitingSlot", false},
		{"one with a pod that uses a card for a request", []func(*Facts){usedBy("ns/a")}, "Running CardsInUse", true},
		{"or with a plain container that does", []func(*Facts){container("docker://1")}, "Running CardsInUse", true},
		{"one whose restart stops containers that the agent may not see", []func(*Facts){stopsAll, unseen}, "Running CardsInUse", true},
		{"or knows nothing of", []func(*Facts){stopsAll, unknown}, "Running CardsInUse", true},
		{"not when it sees all of them", []func(*Facts){stopsAll, holding()}, "Running AwaitingSlot", false},
		{"nor when the restart stops none", []func(*Facts){keepsAll, unseen}, "Running AwaitingSlot", false},
		{"nor when it was asked for", []func(*Facts){stopsAll, unseen, func(f *Facts) { f.Wanted.OnlyIdle = false }}, "Running AwaitingSlot", false},
		{"a process of the host is no container", []func(*Facts){container("")}, "Running AwaitingSlot", false},
		{"an operation that was asked for waits for its slot", []func(*Facts){usedBy("ns/a"), func(f *Facts) { f.Wanted.OnlyIdle = false }}, "Running AwaitingSlot", false},
		{"it waits for longer than an operation may take", []func(*Facts){usedBy("ns/a"), later(100 * time.Hour)}, "Running CardsInUse", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := withoutRequest(t)
			for _, change := range tc.with {
				change(&f)
			}
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tc.want || d.Record.Operation.InUse != tc.inUse {
				t.Errorf("%s, in use: %t", got, d.Record.Operation.InUse)
			}
			if f.Wanted.OnlyIdle && (!NeedsCardUsers(f) || d.After > lookInterval || d.After == 0) {
				t.Errorf("it looks again: %t, after %s", NeedsCardUsers(f), d.After)
			}
		})
	}
}

// The pods that use cards may leave, and others come.
func TestAnOperationWithoutARequestChecksAgain(t *testing.T) {
	f := withoutRequest(t)
	usedBy("ns/a", "ns/b")(&f)
	f.Record = newMachine(t).Next(f).Record
	if text := f.Operation.Message; !strings.HasSuffix(text, "ns/a, ns/b") {
		t.Errorf("message %q", text)
	}
	usedBy()(&f)
	if d := newMachine(t).Next(f); d.Record.Operation.InUse || summaryOf(d) != "Running AwaitingSlot" {
		t.Errorf("once they have left: %s", summaryOf(d))
	}
}

// What keeps the pods from leaving matters when somebody asks: his operation says so before it is granted.
func TestADrainThatCannotSucceedIsNoMatterWhileTheNodeAwaitsItsRequest(t *testing.T) {
	f := withoutRequest(t)
	f.Operation.Before, f.Operation.PreparedTime = nil, nil
	f.Drained = Drained{Stuck: true, Message: "ns/a is protected"}
	usedBy("ns/a")(&f)
	for range 3 {
		f.Record = newMachine(t).Next(f).Record
	}
	if op := f.Operation; op.Reason != ReasonCardsInUse || op.PreparedTime == nil {
		t.Errorf("%s: %s", op.Reason, op.Message)
	}
	f.Operation.Before = nil
	usedBy()(&f)
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_precheck PrecheckFailed" {
		t.Errorf("a pod without a card: %s", got)
	}
}

func TestAnOperationWithoutARequestReturnsTheSlot(t *testing.T) {
	f := withoutRequest(t)
	granted(&f)
	f.Record = newMachine(t).Next(f).Record
	busy := f
	usedBy("ns/a")(&busy)
	if got := summaryOf(newMachine(t).Next(busy)); got != "Releasing then Deferred node_precheck CardsInUse" {
		t.Errorf("a pod came before the grant: %s", got)
	}
	for range 3 {
		f.Record = newMachine(t).Next(f).Record
	}
	f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = true, "op"
	usedBy("ns/a")(&f)
	for _, empty := range []bool{false, true} { // empty: the policy leaves the pod where it is
		f.Drained = Drained{Empty: empty}
		if got := summaryOf(newMachine(t).Next(f)); got != "Releasing then Deferred node_evict CardsInUse" {
			t.Errorf("a pod came before the cordon, empty %t: %s", empty, got)
		}
	}
	usedBy()(&f)
	f.Drained = Drained{Message: "a pod without a card is left"}
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_evict InProgress Evict" {
		t.Errorf("a pod without a card: %s", got)
	}
}
