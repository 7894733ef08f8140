package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// TestAFailedOperationBlamesTheRevisionsThatItRanFor: the revision of the group changed before the
// end of the operation was reviewed, because the group was blocked meanwhile.
func TestAFailedOperationBlamesTheRevisionsThatItRanFor(t *testing.T) {
	driver := []Target{{"kube-system/driver", newHash}}
	for _, tt := range []struct {
		name    string
		ran     []Target
		failure Reason
		blamed  []Target
	}{
		{"those that are still targets", driver, ReasonOperationFailed, driver},
		{"not those of before", []Target{{"kube-system/driver", "between"}}, ReasonOperationFailed, nil},
		{"nor revisions that are not known any more", nil, ReasonOperationFailed, nil},
		{"and none when it was dropped", driver, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := withEnd(heavyNode("a"), tt.failure)
			n.Ended[0].Targets = tt.ran
			slot := operating(n)
			slot.Revision = "r1" // the exporter has another target since
			var blamed []Target
			for _, f := range Plan(heavyInput(1, n).slots(slot)).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
	n := withEnd(heavyNode("a"), ReasonOperationFailed)
	if f := Plan(heavyInput(1, n).slots(operating(n))).Ledger.Failures; len(f) != 1 || !cmp.Equal(f[0].Targets, driver) {
		t.Errorf("failures %+v of an operation of now whose revisions are not known, want those of its slot blamed", f)
	}
}

// TestAFailureBlamesThePodThatTheNodeWaitedFor: two members are new, and the second one hangs, or
// takes the node down. Another revision of the first one changes nothing about that.
func TestAFailureBlamesThePodThatTheNodeWaitedFor(t *testing.T) {
	first, second := []Target{{"kube-system/a", newHash}}, []Target{{"kube-system/b", newHash}}
	pair := func(change func(*Node), members ...string) Input {
		n := nodeOf("a", newHash, newHash)
		n.Pods[0].Created, n.Pods[1].Created = epoch.Add(-100*time.Second), epoch.Add(-70*time.Second)
		n.Pods[1].Available = false
		change(&n)
		slot := slotOf(n, time.Hour)
		slot.Pod, slot.PodVersion, slot.Members = "pod-a-1-old", "1", members
		in := inputOf(1, n).slots(slot)
		in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/b", Target: newHash}}
		return in
	}
	hangs := func(*Node) {}
	lost := func(n *Node) { *n = offline(*n); n.ReadySince = epoch.Add(-time.Hour) }
	gone := func(n *Node) { lost(n); n.Pods[1] = Pod{Member: 1} }
	aside := func(n *Node) { n.Pods[0].Available, n.Pods[1].Available, n.Pods[1].Placeholder = false, true, true }
	suspect := pair(func(n *Node) { *n = offline(*n); n.ReadyWritten = n.ReadySince })
	suspect.Ledger.Slots, suspect.Ledger.LastStart = nil, epoch.Add(-2*time.Minute)
	crashes := pair(func(n *Node) { n.Pods[0].Available, n.Pods[0].CrashLooping = false, "main" }, "kube-system/a", "kube-system/b")
	byOperation := func(ran ...Target) Input {
		in := pair(hangs, "kube-system/a", "kube-system/b")
		in.Ledger.Slots[0].Pod, in.Ledger.Slots[0].Operation = "", "op-a"
		in.Nodes[0] = withDone(in.Nodes[0])
		in.Nodes[0].Ended[0].Time, in.Nodes[0].Ended[0].Targets = epoch.Add(-time.Hour), ran
		return in
	}
	for _, tt := range []struct {
		name   string
		in     Input
		blamed []Target
	}{
		{"that hangs", pair(hangs, "kube-system/a", "kube-system/b"), second},
		{"whatever their order is", pair(hangs, "kube-system/b", "kube-system/a"), first},
		{"with which the node was lost", pair(lost, "kube-system/a", "kube-system/b"), second},
		{"also before it was seen", pair(gone, "kube-system/a", "kube-system/b"), second},
		{"not one in which nothing runs", pair(aside, "kube-system/a", "kube-system/b"), first},
		{"the youngest, when the slot was given back before", suspect, second},
		{"but the one that crash-loops", crashes, first},
		{"all, when an operation replaced them", byOperation(), append(first, second...)},
		{"of a node that was kept cordoned, what its operation changed", byOperation(second[0], Target{"kube-system/former", newHash}), second},
		{"all, when what it changed is no target any more", byOperation(Target{"kube-system/b", "between"}), append(first, second...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var blamed []Target
			for _, f := range Plan(tt.in).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
}

// replacedAlong returns a node whose driver an operation brought to its target, and whose exporter it replaced along at the
// revision that it had: a minute ago, when it stopped working.
func replacedAlong(name string, change func(*Node)) Node {
	n := nodeOf(name, newHash, newHash)
	n.Pods[0].Created, n.Pods[1].Created = epoch.Add(-5*time.Minute), epoch.Add(-4*time.Minute)
	n.Ended = []End{{ID: "op-" + name, Done: true, Touched: true, Time: epoch.Add(-3 * time.Minute), Targets: []Target{{"kube-system/driver", newHash}}}}
	n.Replaced = map[string]time.Time{"kube-system/driver": epoch.Add(-3 * time.Minute), "kube-system/exporter": epoch.Add(-3 * time.Minute)}
	change(&n)
	return n
}

// exporterCrashes makes the exporter of a node crash-loop.
func exporterCrashes(n *Node) {
	n.Pods[1].Available, n.Pods[1].CrashLooping = false, "main"
	n.Pods[1].NotReadySince, n.Pods[1].NotReadyEarliest = epoch.Add(-time.Minute), epoch.Add(-time.Minute)
}

// exporterLast takes a node offline half a minute after its exporter was created.
func exporterLast(n *Node) {
	*n = offline(*n)
	n.ReadyWritten = n.Pods[1].Created.Add(30 * time.Second)
}

// alongAlways says of the exporter that it is replaced along with a driver.
func alongAlways(in Input) Input {
	in.Members[1].ReplacedWithOthers = true
	return in
}

// A bad driver shows in a pod that was replaced along with it, at the revision that it had.
func TestWhatAnOperationChangedIsBlamedForThePodsThatItReplacedAlong(t *testing.T) {
	driver, exporter := []Target{{"kube-system/driver", newHash}}, []Target{{"kube-system/exporter", newHash}}
	and := func(changes ...func(*Node)) func(*Node) {
		return func(n *Node) {
			for _, change := range changes {
				change(n)
			}
		}
	}
	ran := func(targets ...Target) func(*Node) { return func(n *Node) { n.Ended[0].Targets = targets } }
	left := func(revision string) func(*Node) {
		return func(n *Node) { n.Ended[0].Along = []Target{{"kube-system/exporter", revision}} }
	}
	endedAfter := func(created time.Duration) func(*Node) {
		return func(n *Node) { n.Ended[0].Time = n.Pods[1].Created.Add(created) }
	}
	before := func(n *Node) { n.Pods[0].Revision, n.Ended[0].Targets = oldHash, nil }
	old := func(n *Node) { n.Ended[0].Time = epoch.Add(-time.Hour) }
	inFlight := heavyInput(1, replacedAlong("a", exporterCrashes)).slots(operating(heavyNode("a")))
	inFlight.Ledger.Slots[0].Newest = epoch.Add(-time.Hour)
	for _, tt := range []struct {
		name   string
		in     Input
		blamed []Target
	}{
		{"when it crash-loops", heavyInput(1, replacedAlong("a", exporterCrashes)), driver},
		{"when it crash-loops before the slot is given back", inFlight, driver},
		{"when the node goes offline shortly after", heavyInput(1, replacedAlong("a", exporterLast)), driver},
		{"not for a pod that was made later", heavyInput(1, replacedAlong("a", and(exporterCrashes, func(n *Node) { n.Pods[1].Created = epoch.Add(-2 * time.Minute) }))), exporter},
		{"also if the clock that wrote its end was behind", heavyInput(1, replacedAlong("a", and(exporterCrashes, left(newHash), endedAfter(-time.Minute)))), driver},
		{"not if the pod is too new for that", heavyInput(1, replacedAlong("a", and(exporterCrashes, left(newHash), endedAfter(-daemonset.MaxSkew-time.Second)))), exporter},
		{"nor if it left another revision, and that clock was ahead", heavyInput(1, replacedAlong("a", and(exporterCrashes, left(oldHash)))), exporter},
		{"not for a pod that it changed", heavyInput(1, replacedAlong("a", and(exporterCrashes, ran(driver[0], exporter[0])))), exporter},
		{"nor anything if what it changed is not known", alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, ran())))), nil},
		{"also for one that was made later, by a clock that may differ", alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, ran(), func(n *Node) { n.Pods[1].Created = epoch.Add(-2 * time.Minute) })))), nil},
		{"unless it does not replace such pods along", heavyInput(1, replacedAlong("a", and(exporterCrashes, ran()))), exporter},
		{"not if it was of another group", heavyInput(1, replacedAlong("a", and(exporterCrashes, ran(Target{"kube-system/other", newHash})))), exporter},
		{"without what has left since", heavyInput(1, replacedAlong("a", and(exporterCrashes, ran(Target{"kube-system/former", "x"}, driver[0])))), driver},
		{"not if it touched nothing", heavyInput(1, replacedAlong("a", and(exporterCrashes, func(n *Node) { n.Ended[0].Touched = false }))), exporter},
		{"not if it was not done", heavyInput(1, replacedAlong("a", and(exporterCrashes, func(n *Node) { n.Ended[0].Done = false }))), exporter},
		{"nor anything if there is another version since", heavyInput(1, replacedAlong("a", and(exporterCrashes, ran(Target{"kube-system/driver", oldHash})))), nil},
		{"nor anything if another operation will replace it along", alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, before)))), nil},
		{"unless none does such pods", heavyInput(1, replacedAlong("a", and(exporterCrashes, before))), exporter},
		{"unless it is newer than the driver", alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, before, old, func(n *Node) { n.Pods[0].Created = epoch.Add(-time.Hour) })))), exporter},
		{"unless a toolkit is outdated", withToolkit(alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, before, func(n *Node) { n.Ended[0].Targets = driver }))))), exporter},
		{"nor for one that is much newer than an operation of which nothing is known", alongAlways(heavyInput(1, replacedAlong("a", and(exporterCrashes, old, ran())))), exporter},
		{"nor anything if it kept the node from it", heavyInput(1, replacedAlong("a", and(exporterCrashes, func(n *Node) { n.Ended[0].Left = []Target{{"kube-system/driver", oldHash}} }))), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Ledger.LastStart = epoch.Add(-6 * time.Minute)
			var blamed []Target
			failures := Plan(tt.in).Ledger.Failures
			for _, f := range failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed); diff != "" || (len(failures) > 0) != (tt.blamed != nil) {
				t.Errorf("%d nodes failed, blamed (-want +got):\n%s", len(failures), diff)
			}
		})
	}
}

// withToolkit makes the driver a toolkit, with which nothing is replaced along, and the exporter newer than the last operation.
func withToolkit(in Input) Input {
	in.Members[0].Restarts = true
	in.Nodes[0].Pods[1].Created = in.Nodes[0].Ended[0].Time.Add(time.Second)
	return in
}

// The exporter that crash-loops because of the driver is available for moments, which end no halt. Another driver does.
func TestABadDriverThatShowsInAnotherPodHaltsUntilThereIsAnotherDriver(t *testing.T) {
	in := heavyInput(1, replacedAlong("a", exporterCrashes), replacedAlong("b", exporterLast), heavyNode("c"))
	in.Ledger.LastStart = epoch.Add(-6 * time.Minute)
	d := Plan(in)
	if d.Halted == "" || len(d.Ledger.Failures) != 2 {
		t.Fatalf("failures %+v, and no halt", d.Ledger.Failures)
	}
	in.Ledger = d.Ledger
	in.Now = in.Now.Add(20 * time.Second)
	if again := Plan(in); !cmp.Equal(again.Ledger.Failures, d.Ledger.Failures) {
		t.Errorf("failures %+v, then %+v", d.Ledger.Failures, again.Ledger.Failures)
	}
	exporter := &in.Nodes[0].Pods[1]
	exporter.Available, exporter.CrashLooping, exporter.NotReadySince = true, "", time.Time{}
	exporter.ReadyAgain, exporter.Ran = in.Now.Add(-time.Second), 10*time.Second
	if again := Plan(in); !cmp.Equal(again.Ledger.Failures, d.Ledger.Failures) {
		t.Errorf("failures %+v in a moment in which the exporter is Ready", again.Ledger.Failures)
	}
	in.Nodes[0].Ended[0].Targets = nil // another operation is about to be prepared there
	if again := Plan(alongAlways(in)); !cmp.Equal(again.Ledger.Failures, d.Ledger.Failures) {
		t.Errorf("failures %+v once it is not known what the operation changed", again.Ledger.Failures)
	}
	in.Members[0].Target, in.Revision = "newer", "r3"
	if d = Plan(in); d.Halted != "" || len(d.Ledger.Failures) > 0 {
		t.Errorf("halted %q with another driver", d.Halted)
	}
}

// When a bad driver is rolled back, a plugin that was blamed for it does not keep its node from the driver that cures it.
func TestAPodThatAnOperationWillReplaceAlongEndsItsFailure(t *testing.T) {
	for _, tt := range []struct {
		name     string
		with     func(*Input)
		failures int
	}{
		{"it will", func(*Input) {}, 0},
		{"none replaces it along", func(in *Input) { in.Members[1].ReplacedWithOthers = false }, 1},
		{"none is outstanding", func(in *Input) { in.Nodes[0].Pods[0].Revision = newHash }, 1},
		{"the driver is left out", func(in *Input) { in.Members[0].LeftOut = true }, 1},
		{"the driver is older than that", func(in *Input) { in.Nodes[0].Pods[0].Created = epoch.Add(-time.Hour) }, 1},
		{"whatever the clock of the manager said", func(in *Input) { in.Nodes[0].Ended[0].Time = epoch.Add(-time.Hour) }, 0},
	} {
		in := alongAlways(heavyInput(1, replacedAlong("a", func(n *Node) { exporterCrashes(n); n.Pods[0].Revision = oldHash })))
		in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonCrashLooping, Targets: []Target{{"kube-system/exporter", newHash}}}}
		tt.with(&in)
		if got := len(Plan(in).Ledger.Failures); got != tt.failures {
			t.Errorf("%s: %d failures, want %d", tt.name, got, tt.failures)
		}
	}
}

// Plugins that a bad driver spoiled do not use the budget up that their own nodes need for the driver that cures them.
func TestANodeWhosePluginADriverCuresStartsThoughOthersWaitForThatToo(t *testing.T) {
	spoiled := func(name string) Node {
		return prepared(replacedAlong(name, func(n *Node) { exporterCrashes(n); n.Pods[0].Revision = oldHash }))
	}
	if d := Plan(alongAlways(heavyInput(1, spoiled("a"), spoiled("b"), spoiled("c")))); len(d.Ledger.Slots) != 1 {
		t.Errorf("slots %+v, waiting %+v, want one", d.Ledger.Slots, d.Waiting)
	}
	if d := Plan(heavyInput(1, spoiled("a"), spoiled("b"), spoiled("c"))); len(d.Ledger.Slots) != 0 {
		t.Errorf("slots %+v, though the pods of three nodes are being replaced", d.Ledger.Slots)
	}
}

func TestAFailureUnderASlotHasWhatTheSlotReplaced(t *testing.T) {
	n := replacedAlong("a", func(n *Node) { exporterCrashes(n); n.Ended[0].Targets = nil })
	slot := slotOf(n, time.Minute)
	slot.Pod, slot.PodVersion, slot.Members, slot.Newest = "former", "1", []string{"kube-system/exporter"}, n.Pods[1].Created.Add(-time.Minute)
	failures := Plan(alongAlways(heavyInput(1, n)).slots(slot)).Ledger.Failures
	if len(failures) != 1 || !cmp.Equal(failures[0].Targets, []Target{{"kube-system/exporter", newHash}}) {
		t.Errorf("failures %+v", failures)
	}
}

// A pod that hangs because of a bad driver, and has a newer version since that works with it, does not keep its node from that.
func TestAPodThatHasAnotherTargetSinceEndsTheFailureOfAnother(t *testing.T) {
	for _, tt := range []struct {
		name     string
		with     func(*Input)
		failures int
	}{
		{"it has", func(*Input) {}, 0},
		{"it has not", func(in *Input) { in.Members[1].Target = newHash }, 1},
		{"it is to blame", func(in *Input) {
			in.Ledger.Failures[0].Targets = append(in.Ledger.Failures[0].Targets, Target{"kube-system/exporter", "newer"})
		}, 1},
		{"what is to blame does not work", func(in *Input) { in.Nodes[0].Pods[0].Available = false }, 1},
		{"the node is offline", func(in *Input) { in.Nodes[0] = offline(in.Nodes[0]) }, 1},
		{"it crash-loops", func(in *Input) { in.Ledger.Failures[0].Reason = ReasonCrashLooping }, 0},
		{"it is left out", func(in *Input) { in.Members[1].LeftOut = true }, 1},
		{"it has no successor", func(in *Input) { in.Nodes[0].Pods[1].NoSuccessor = "a taint" }, 1},
		{"what is to blame offers no cards", func(in *Input) { in.Nodes[0].Pods[0].OffersNone = true }, 1},
		{"it hangs, but the driver that cures it is to come", func(in *Input) {
			alongAlways(*in)
			in.Members[1].Target, in.Nodes[0].Pods[0].Revision = newHash, oldHash
			in.Ledger.Failures[0].Targets = []Target{{"kube-system/exporter", newHash}}
		}, 0},
		{"an operation failed", func(in *Input) { in.Ledger.Failures[0].Reason = ReasonOperationFailed }, 1},
	} {
		in := heavyInput(1, replacedAlong("a", func(n *Node) { n.Pods[1].Available = false }))
		in.Members[1].Target = "newer"
		in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonProgressDeadlineExceeded, Targets: []Target{{"kube-system/driver", newHash}}}}
		tt.with(&in)
		if got := len(Plan(in).Ledger.Failures); got != tt.failures {
			t.Errorf("%s: %d failures, want %d", tt.name, got, tt.failures)
		}
	}
}

// The pod that the slot names may still be there, because the node was queued again with it when the limit was lowered.
func TestAPodThatIsStillThereIsNotBlamed(t *testing.T) {
	first, second := []Target{{"kube-system/driver", newHash}}, []Target{{"kube-system/exporter", newHash}}
	hanging := func(change func(*Node, *Slot)) Input {
		n := nodeOf("a", newHash, oldHash)
		n.Pods[0].Available, n.Pods[0].NotReadySince = false, epoch.Add(-20*time.Minute)
		n.Pods[0].Created, n.Pods[1].Version = epoch.Add(-30*time.Minute), "8" // it is fenced
		n.Replaced = map[string]time.Time{"kube-system/driver": epoch.Add(-20 * time.Minute)}
		slot := slotOf(n, time.Hour)
		slot.Pod, slot.PodVersion, slot.Members, slot.Newest = n.Pods[1].UID, "7", []string{"kube-system/exporter"}, epoch
		change(&n, &slot)
		return heavyInput(1, n).slots(slot)
	}
	for _, tt := range []struct {
		name   string
		change func(*Node, *Slot)
		blamed []Target
	}{
		{"but what was replaced before the node was queued again", func(*Node, *Slot) {}, first},
		{"but what was replaced under the slot", func(n *Node, s *Slot) {
			n.Replaced, s.Members = nil, []string{"kube-system/driver", "kube-system/exporter"}
		}, first},
		{"unless nothing was replaced", func(n *Node, _ *Slot) { n.Replaced = nil }, second},
		{"unless what was replaced works", func(n *Node, _ *Slot) {
			n.Pods[0].Available, n.Pods[0].NotReadySince, n.Pods[1].Available = true, time.Time{}, false
		}, second},
		{"if the node was lost since", func(n *Node, _ *Slot) { *n = offline(*n); n.ReadySince = epoch.Add(-time.Hour) }, first},
		{"but one that terminates is, which a slot corrected after a restore may name", func(n *Node, _ *Slot) {
			n.Pods[1].Terminating, n.Pods[1].Version = true, "7"
		}, second},
		{"nor what an operation replaced along", func(n *Node, s *Slot) {
			n.Pods[0], n.Pods[1] = n.Pods[1], n.Pods[0]
			n.Pods[0].Member, n.Pods[1].Member = 0, 1
			n.Pods[0].Revision, n.Pods[0].Available = newHash, true
			n.Pods = append(n.Pods, Pod{Member: 2, UID: "nfd", Version: "8", Revision: oldHash, Available: true})
			n.Replaced = map[string]time.Time{"kube-system/exporter": epoch.Add(-20 * time.Minute)}
			n.Ended = []End{{ID: "op-a", Done: true, Touched: true, Time: epoch.Add(-20 * time.Minute), Targets: first}}
			s.Pod, s.Members = "nfd", []string{"kube-system/nfd"}
		}, first},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := hanging(tt.change)
			in.Members = append(in.Members, Member{Key: "kube-system/nfd", Target: newHash})
			in.Members[0].Heavy = false
			var blamed []Target
			for _, f := range Plan(in).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
}
