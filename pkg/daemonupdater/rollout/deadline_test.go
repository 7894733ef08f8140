package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a slot's deadlines do when the world is not as it was when the slot was given.
func TestDeadlinesOfASlot(t *testing.T) {
	const progress, lost = 10 * time.Minute, 15 * time.Minute
	slotted := func(n Node, age time.Duration) Input { return inputOf(1, n).slots(slotOf(n, age)) }
	denied := func(n Node, since time.Duration) Node {
		n.DeniedDeletion = &Denial{Object: n.Pods[0].UID, Since: epoch.Add(-since), Retry: epoch.Add(time.Minute), Message: "no"}
		return n
	}
	naming := func(in Input) Input {
		in.Ledger.Slots[0].Pod, in.Ledger.Slots[0].PodVersion, in.Ledger.Slots[0].Members = in.Nodes[0].Pods[0].UID, "1", []string{"kube-system/a"}
		return in
	}
	awaiting := broken(nodeOf("a", newHash))
	awaiting.Pods[0].AvailableAt = epoch.Add(time.Minute)
	earlier := slotted(broken(nodeOf("a", newHash)), 2*time.Hour)
	earlier.Ledger.Slots[0].Progress, earlier.Ledger.Decided = time.Time{}, time.Time{}
	flapped := offline(nodeOf("a", newHash))
	flapped.Pods[0].UID = ""
	flapped.ReadySince = epoch.Add(-21 * time.Minute)
	absent := slotted(flapped, 22*time.Minute)
	absent.Ledger.Decided = epoch.Add(-20 * time.Minute)
	during := absent
	during.Nodes = []Node{flapped}
	during.Nodes[0].ReadySince = epoch.Add(-19 * time.Minute)
	short := slotted(broken(nodeOf("a", newHash)), 40*time.Second)
	short.Deadlines.Progress = 20 * time.Second
	interrupted := short
	interrupted.Ledger.Decided = epoch.Add(-39 * time.Second)
	for _, tt := range []struct {
		name string
		in   Input
		want []Reason
	}{
		{"a short deadline is kept", short, []Reason{ReasonProgressDeadlineExceeded}},
		{"it does not count an absence that is long for it", interrupted, nil},
		{"a node that is unavailable too long fails", slotted(broken(nodeOf("a", newHash)), progress), []Reason{ReasonProgressDeadlineExceeded}},
		{"not one whose broken pod may not be deleted", naming(slotted(denied(broken(nodeOf("a", oldHash)), progress/2), progress)), nil},
		{"nor one that only waits for minReadySeconds", slotted(awaiting, progress+time.Minute), nil},
		{"nor one that is available: its slot waits for the manager", slotted(nodeOf("a", oldHash), 24*time.Hour), nil},
		{"but in all it is bounded", slotted(awaiting, 3*progress+lost), []Reason{ReasonProgressDeadlineExceeded}},
		{"a slot of an earlier version begins anew", earlier, nil},
		{"a node that went offline just before an absence has its time", absent, nil},
		{"and so has one that went offline in it", during, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []Reason
			for _, f := range Plan(tt.in).Ledger.Failures {
				got = append(got, f.Reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASlotWhoseNodeIsAvailableWaitsForTheManager(t *testing.T) {
	n := nodeOf("a", oldHash)
	in := inputOf(1, n).slots(slotOf(n, 12*time.Minute))
	slot := Plan(in).Ledger.Slots[0]
	if !slot.Progress.Equal(epoch) || slot.Idle != 12*time.Minute {
		t.Errorf("the deadline counts from %s, %s idle: a pod that is deleted now would fail at once", slot.Progress, slot.Idle)
	}
}

// Each deletion restarts the deadline, also on a node that has been unavailable all along.
func TestTheDeadlineRestartsWithTheNextPod(t *testing.T) {
	n := nodeOf("a", newHash, oldHash)
	n.Pods[1].Available = false
	slot := slotOf(n, 9*time.Minute)
	slot.Pod, slot.Members = "pod-a-0-before", []string{"kube-system/a"}
	in := inputOf(1, n).slots(slot)
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	d := Plan(in)
	if slot := d.Ledger.Slots[0]; slot.Pod != n.Pods[1].UID || !slot.Progress.Equal(epoch) {
		t.Errorf("the slot names pod %s, its deadline counts from %s; want %s from %s", slot.Pod, slot.Progress, n.Pods[1].UID, epoch)
	}
}

// It may succeed now: what the new pod does is to be known.
func TestADeletionThatIsTriedAgainDoesNotCountTwice(t *testing.T) {
	n := nodeOf("a", oldHash)
	n.DeniedDeletion = &Denial{Object: n.Pods[0].UID, Since: epoch.Add(-time.Hour), Retry: epoch.Add(-time.Second)}
	in := inputOf(1, n)
	in.Ledger.Touched = 3
	if d := Plan(in); len(d.Started) != 1 || d.Ledger.Touched != 3 || !d.Ledger.LastStart.Equal(epoch) {
		t.Errorf("started %v, %d touched, last at %s", d.Started, d.Ledger.Touched, d.Ledger.LastStart)
	}
}

// A failure follows the name of a node, also when its Node object is deleted and made again, unless the
// machine is known to be another.
func TestAnotherMachineHasNotFailed(t *testing.T) {
	for _, tt := range []struct {
		name, failed, now string
		again, stays      bool
	}{
		{"the same", "old", "old", false, true},
		{"the same under another Node object", "old", "old", true, true},
		{"not known any more", "old", "", false, true},
		{"not known any more under another Node object", "old", "", true, true},
		{"not known before, under another Node object", "", "new", true, true},
		{"another", "old", "new", false, false},
		{"another under another Node object", "old", "new", true, false},
	} {
		n := broken(nodeOf("a", newHash))
		in := inputOf(1, n)
		in.Ledger.Failures = []Failure{{Node: "a", UID: n.UID, Machine: tt.failed, Reason: ReasonProgressDeadlineExceeded, Targets: targetsOf(&in)}}
		in.Nodes[0].Machine = tt.now
		if tt.again {
			in.Nodes[0].UID = "again"
		}
		if d := Plan(in); len(d.Ledger.Failures) > 0 != tt.stays {
			t.Errorf("the machine is %s: failures are %+v", tt.name, d.Ledger.Failures)
		}
	}
}

// A policy may set a deadline of decades: nodes with many pods do not fail at once.
func TestALongDeadlineIsLong(t *testing.T) {
	long := Deadlines{Progress: 2147483647 * time.Second, Lost: 2147483647 * time.Second}
	for pods := range 20 {
		n := broken(nodeOf("a", newHash))
		n.group = &group{}
		for range pods {
			n.Pods = append(n.Pods, n.Pods[0])
		}
		slot := slotOf(n, time.Minute)
		slot.Idle = time.Hour
		in := Input{Now: epoch, Deadlines: long}
		if got := timeLeft(&in, &slot, slot.Since, &n); got < long.Progress/2 {
			t.Errorf("a node of %d pods may be unavailable for %s", pods, got)
		}
	}
}
