package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// longNamed returns a fleet that may be upgraded all at once, with names of this length.
func longNamed(n, length int) Input {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = nodeOf(fmt.Sprintf("%0*d", length, i), oldHash)
	}
	return inputOf(n, nodes...)
}

func TestFewerNodesAreInFlightAtOnceIfTheirNamesAreLong(t *testing.T) {
	short, long := Plan(longNamed(3000, 10)), Plan(longNamed(3000, 253))
	if short.MaxUnavailable < 1500 || short.MaxUnavailable > 2500 || long.MaxUnavailable < 1000 || long.MaxUnavailable > short.MaxUnavailable-500 {
		t.Errorf("%d nodes with short names may be in flight, %d with long ones", short.MaxUnavailable, long.MaxUnavailable)
	}
	if len(long.Started) != long.MaxUnavailable || len(long.Ledger.Slots) != long.MaxUnavailable+maxQueued {
		t.Errorf("%d nodes are started, of %d slots, want %d", len(long.Started), len(long.Ledger.Slots), long.MaxUnavailable)
	}
	// One long name is enough.
	in := longNamed(3000, 10)
	in.Nodes[7].Name = strings.Repeat("n", 253)
	if one := Plan(in); one.MaxUnavailable != long.MaxUnavailable {
		t.Errorf("with one long name %d may be in flight, want %d", one.MaxUnavailable, long.MaxUnavailable)
	}
	few := longNamed(3000, 253)
	few.Settings.MaxUnavailable = intstr.FromInt32(30)
	if d := Plan(few); d.MaxUnavailable != 30 {
		t.Errorf("%d nodes may be unavailable, want 30", d.MaxUnavailable)
	}
}

func TestARolloutOfNodesWithLongNamesFinishes(t *testing.T) {
	in := longNamed(3000, 253)
	f := NewFleet(&in)
	for pass := 0; ; pass++ {
		d := f.Plan(in)
		if d.Counts.Updated == len(in.Nodes) {
			if pass < 3 {
				t.Errorf("all nodes were updated in %d passes", pass)
			}
			return
		}
		if pass > 20 || len(d.Delete) == 0 && len(d.Started) == 0 {
			t.Fatalf("pass %d: nothing goes on: %+v", pass, d.Counts)
		}
		in.Ledger, in.Now = d.Ledger, in.Now.Add(time.Second)
		for _, deleted := range d.Delete {
			n := *f.Node(deleted.Node)
			replaceOn(&n)
			availableOn(&n)
			f.Set(n, in.Now)
		}
	}
}

func TestFailuresTakeRoomFromSlots(t *testing.T) {
	in := longNamed(3000, 253).withPolicy(Policy{Threshold: ptr.To(intstr.FromString("100%"))})
	free := Plan(in).MaxUnavailable
	in.Ledger.Touched = 3000
	for i := range 500 {
		in.Ledger.Failures = append(in.Ledger.Failures, Failure{Node: in.Nodes[i].Name, UID: in.Nodes[i].UID, Reason: ReasonOperationAborted,
			Targets: []Target{{"kube-system/a", newHash}}})
	}
	if d := Plan(in); len(d.Ledger.Failures) != 500 || d.MaxUnavailable > free-300 || d.MaxUnavailable < 500 || len(d.Started) != d.MaxUnavailable {
		t.Errorf("with %d failures %d of at most %d nodes are started, %d without any", len(d.Ledger.Failures), len(d.Started), d.MaxUnavailable, free)
	}
}

// When very many nodes go offline after their upgrade, those of which the ledger has no room are
// not recorded, as they can be seen again, but they count for a halt.
func TestNodesThatTheLedgerHasNoRoomForCountForAHalt(t *testing.T) {
	in := longNamed(4000, 253)
	for i := range in.Nodes {
		n := &in.Nodes[i]
		replaceOn(n)
		n.Pods[0].Available, n.Pods[0].Created = true, in.Now.Add(-2*time.Minute)
		n.Ready, n.ReadySince, n.ReadyWritten, n.ReadyEarliest = false, in.Now.Add(-time.Minute), in.Now.Add(-time.Minute), in.Now.Add(-time.Minute)
	}
	in.Ledger.Touched, in.Ledger.LastStart = 4000, in.Now.Add(-2*time.Minute)
	in = in.withPolicy(Policy{Threshold: ptr.To(intstr.FromString("100%"))})
	d := Plan(in)
	if n := len(d.Ledger.Failures); n < 1000 || n > 2500 {
		t.Errorf("%d failures are recorded", n)
	}
	if !strings.HasPrefix(d.Halted, "4000 of 4000 started nodes failed") {
		t.Errorf("halted: %q", d.Halted)
	}
}
