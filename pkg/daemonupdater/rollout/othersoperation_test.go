package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestAnOperationOfAnotherGroupIsReplacedWhenItIsNotGranted: that group waits for its budget, its
// window or a wave, possibly for good.
func TestAnOperationOfAnotherGroupIsReplacedWhenItIsNotGranted(t *testing.T) {
	waiting := func(since time.Duration) Operation {
		return Operation{ID: "theirs", Prepared: true, WaitingSince: epoch.Add(-since)}
	}
	granted := waiting(time.Hour)
	granted.Granted = true
	for _, tt := range []struct {
		name    string
		job     Operation
		state   string
		instead []string
		recheck time.Duration
	}{
		{"not while it is being prepared", Operation{ID: "theirs"}, "pending/NodeBusy", nil, 0},
		{"not before the progress deadline", waiting(9 * time.Minute), "pending/NodeBusy", nil, time.Minute},
		{"after it", waiting(10 * time.Minute), "pending/Preparing", []string{"theirs"}, 0},
		{"when another clock, which was ahead, wrote since when it waits", waiting(-3 * time.Hour), "pending/Preparing", []string{"theirs"}, 0},
		{"never when it is granted", granted, "pending/NodeBusy", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(heavyInput(1, withJob(heavyNode("a"), &tt.job)))
			var instead []string
			for _, o := range d.Operations {
				instead = append(instead, o.Instead)
			}
			if got := say(d).States["a"]; got != tt.state || d.Recheck != tt.recheck || len(d.Started) > 0 {
				t.Errorf("%s, started %v, decides again after %s; want %s, nothing, %s", got, d.Started, d.Recheck, tt.state, tt.recheck)
			}
			if diff := cmp.Diff(tt.instead, instead, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGroupReplacesAnOperationOnlyWhenItHasRoom: two groups that have none would replace each
// other's operations for good.
func TestAGroupReplacesAnOperationOnlyWhenItHasRoom(t *testing.T) {
	waiting := withJob(heavyNode("a"), &Operation{ID: "theirs", Prepared: true, WaitingSince: epoch.Add(-time.Hour)})
	outOfOrder := broken(nodeOf("b", newHash, newHash))
	for _, tt := range []struct {
		name  string
		limit int
		want  []string
	}{
		{"no room", 1, nil},
		{"room", 2, []string{"theirs"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var instead []string
			for _, o := range Plan(heavyInput(tt.limit, waiting, outOfOrder)).Operations {
				instead = append(instead, o.Instead)
			}
			if diff := cmp.Diff(tt.want, instead); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
		})
	}
}

// A node in flight that needs an operation, and is out of service, has its slot already: the operation
// of another group that waits there for its own would keep it until the node failed.
func TestANodeThatIsOutOfServiceReplacesAnOperationThatWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  Operation
		want []string
	}{
		{"not while it is being prepared", Operation{ID: "theirs"}, nil},
		{"as soon as it waits for its grant", Operation{ID: "theirs", Prepared: true, WaitingSince: epoch}, []string{"theirs"}},
		{"never when it is granted", Operation{ID: "theirs", Prepared: true, WaitingSince: epoch, Granted: true}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := withJob(broken(heavyNode("a")), &tt.job)
			var instead []string
			for _, o := range Plan(heavyInput(1, node).slots(slotOf(node, time.Minute))).Operations {
				if !o.Grant {
					t.Errorf("order %+v does not grant", o)
				}
				instead = append(instead, o.Instead)
			}
			if diff := cmp.Diff(tt.want, instead); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing was done on it, so nothing has failed there. It gives its slot back, and is out of service as before. What was replaced under its
// slot, or came by itself, may have failed, whatever the other group does.
func TestANodeThatOnlyWaitedForTheOperationOfAnotherGroupHasNotFailed(t *testing.T) {
	theirs := &Operation{ID: "theirs"}
	waiting := withJob(broken(heavyNode("a")), theirs)
	replaced := withJob(heavyNode("a"), theirs)
	replaced.Pods[1].Available, replaced.Pods[1].NotReadySince = false, epoch.Add(-time.Hour)
	crashed := withJob(heavyNode("a"), theirs)
	crashed.Pods[1].Available, crashed.Pods[1].NotReadySince = false, epoch.Add(-time.Second)
	crashed.Pods[1].CrashLooping, crashed.Pods[1].Created = "exporter", epoch
	absent := withJob(heavyNode("a"), theirs)
	absent.Pods[1] = Pod{Node: "a", Member: 1}
	for _, tt := range []struct {
		name     string
		node     Node
		age      time.Duration
		replaced []string
		state    string
	}{
		{"before the deadline", waiting, 9 * time.Minute, nil, "in-flight/Replacing"},
		{"after it", waiting, 10 * time.Minute, nil, "pending/NodeBusy"},
		{"what was replaced has failed", replaced, 10 * time.Minute, []string{"kube-system/exporter"}, "failed/ProgressDeadlineExceeded"},
		{"also if it is older since", waiting, 10 * time.Minute, []string{"kube-system/driver"}, "failed/ProgressDeadlineExceeded"},
		{"what came by itself has failed", replaced, 10 * time.Minute, nil, "failed/ProgressDeadlineExceeded"},
		{"and if it crashes", crashed, time.Minute, nil, "failed/CrashLooping"},
		{"and if it does not come", absent, 10 * time.Minute, nil, "failed/ProgressDeadlineExceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slot := slotOf(tt.node, tt.age)
			if slot.Members = tt.replaced; len(tt.replaced) > 0 {
				slot.Pod = "a pod before"
			}
			in := heavyInput(1, tt.node, heavyNode("b")).slots(slot)
			in.Ledger.Started = 1
			d := Plan(in)
			if say(d).States["a"] != tt.state || len(d.Started) > 0 || d.Ledger.Started != len(d.Ledger.Slots)+len(d.Ledger.Failures) {
				t.Errorf("states %v, started %v, %d of them counted, failures %+v; want %s", say(d).States, d.Started, d.Ledger.Started, d.Ledger.Failures, tt.state)
			}
		})
	}
}
