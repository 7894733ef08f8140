package operation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A webhook or a policy denies each change of the Node object.
func TestADeniedWriteToTheNodeIsNamed(t *testing.T) {
	const cause = "patching node n1: denied by a webhook"
	for _, tt := range []struct {
		name, at string
		with     func(*Facts)
		// denied is the decision while the denial is remembered, tried the one at its next attempt, and free the one without a denial.
		denied, tried, free string
		// says is the message while the denial is remembered.
		says string
	}{
		{"a cordon", "node_cordon", func(*Facts) {},
			"Running node_cordon CordonHeld", "Running node_cordon CordonHeld Cordon", "Running node_cordon InProgress Cordon", cause},
		{"the taint", "driver_replace", func(f *Facts) { f.Drained.Empty, f.Node.Taint = true, "" },
			"Running driver_replace InProgress", "Running driver_replace InProgress TaintDevice", "Running driver_replace InProgress TaintDevice", "adding the driver-upgrade taint: " + cause},
		{"the end of the taint, in the release", "node_cordon", func(f *Facts) { f.Wanted.Abort, f.Node.Taint = true, "op" },
			"Releasing then Aborted node_cordon Aborted", "Releasing then Aborted node_cordon Aborted UntaintDevice", "Releasing then Aborted node_cordon Aborted UntaintDevice",
			"the operation was aborted; the node is not released: " + cause},
		{"an uncordon", "node_cordon", func(f *Facts) {
			f.Wanted.Abort, f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = true, true, "op"
		},
			"Releasing then Aborted node_cordon Aborted", "Releasing then Aborted node_cordon Aborted Uncordon", "Releasing then Aborted node_cordon Aborted Uncordon",
			"the operation was aborted; the node is not released: " + cause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, tt.at, driverOnly...)
			tt.with(&f)
			decide := func(want string) Decision {
				t.Helper()
				d := newMachine(t).Next(f)
				if got := summaryOf(d); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				f.Record = d.Record
				return d
			}
			decide(tt.free)
			f.Denied = map[types.UID]Denial{f.Node.UID: {Retry: f.Now.Add(20 * time.Second), Message: cause}}
			for range 2 {
				later(time.Second)(&f)
				if d := decide(tt.denied); d.Record.Operation.Message != tt.says || d.After > 19*time.Second {
					t.Errorf("it looks again after %s, and says: %s", d.After, d.Record.Operation.Message)
				}
			}
			later(18 * time.Second)(&f)
			decide(tt.tried)
			f.Denied = nil
			if d := decide(tt.free); strings.Contains(d.Record.Operation.Message, "denied") {
				t.Errorf("without a denial it says: %s", d.Record.Operation.Message)
			}
		})
	}
}

func TestACordonThatIsDeniedUntilTheDeadlineSaysSo(t *testing.T) {
	const want = "theNode_node_cordon took more than 10m0s: patching node n1: denied by a webhook"
	f := reach(t, "node_cordon", driverOnly...)
	f.Denied = map[types.UID]Denial{f.Node.UID: {Message: "patching node n1: denied by a webhook"}}
	later(10 * time.Minute)(&f)
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Releasing then Deferred node_cordon CordonHeld" || d.Record.Operation.Message != strings.ReplaceAll(want, "theNode", theNode) {
		t.Errorf("%s: %s", got, d.Record.Operation.Message)
	}
}

// Its components could not come back, and the version would be blamed.
func TestATaintThatCannotBeRemovedIsNamed(t *testing.T) {
	f := reach(t, "node_soak", driverOnly...)
	f.Node.Taint = "op"
	f.Denied = map[types.UID]Denial{f.Node.UID: {Message: "denied by a webhook"}}
	if d := newMachine(t).Next(f); !strings.HasSuffix(d.Record.Operation.Message, "; the driver-upgrade taint cannot be removed: denied by a webhook") {
		t.Errorf("%s: %s", summaryOf(d), d.Record.Operation.Message)
	}
}
