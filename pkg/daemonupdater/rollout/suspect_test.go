package rollout

import (
	"slices"
	"testing"
	"time"
)

// offlineAfterUpdate returns an offline node that went offline some time after its new pod was
// created.
func offlineAfterUpdate(name string, after time.Duration) Node {
	n := withPod(offline(nodeOf(name, newHash)), func(p *Pod) { p.Available = false })
	n.ReadyWritten = n.ReadySince
	n.Pods[0].Created = n.ReadySince.Add(-after)
	return n
}

func TestANodeThatGoesOfflineShortlyAfterItWasUpdatedFailed(t *testing.T) {
	tests := []struct {
		name   string
		node   Node
		change func(*Input)
		failed bool
	}{
		{"within two minutes of its new pod", offlineAfterUpdate("a", time.Minute), func(*Input) {}, true},
		{"not when the pod was older", offlineAfterUpdate("a", 3*time.Minute), func(*Input) {}, false},
		{"not when the pod was made after it went offline", offlineAfterUpdate("a", -time.Second), func(*Input) {}, false},
		{"not when it is outdated: it is skipped", withPod(offlineAfterUpdate("a", time.Minute), func(p *Pod) { p.Revision = oldHash }), func(*Input) {}, false},
		{"not when the pod waits at the gate: it has not run", withPod(offlineAfterUpdate("a", time.Minute), func(p *Pod) { p.Gated = true }), func(*Input) {}, false},
		{"not when it joined long after the last start", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Ledger.LastStart = epoch.Add(-time.Hour) }, false},
		{"not when a person resumed the rollout since", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Ledger.ResumedAt = epoch }, false},
		{"if a person resumed the rollout before", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-61 * time.Second) }, true},
		{"not when it may have been offline then", with(offlineAfterUpdate("a", time.Minute), func(n *Node) { n.ReadyEarliest = n.ReadySince.Add(-2 * time.Second) }),
			func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-61 * time.Second) }, false},
		{"not when a person resumes the rollout now", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Resume = "monday" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node, nodeOf("b", newHash))
			in.Ledger.LastStart = epoch.Add(-2 * time.Minute)
			tt.change(&in)
			d := Plan(in)
			if failed := d.Counts.Failed == 1; failed != tt.failed {
				t.Errorf("counts %+v, failures %v; want it failed: %v", d.Counts, d.Ledger.Failures, tt.failed)
			}
		})
	}
}

func TestAVersionThatTakesNodesDownLaterHaltsTheRollout(t *testing.T) {
	in := inputOf(1, offlineAfterUpdate("a", time.Minute), offlineAfterUpdate("b", time.Minute), nodeOf("c", oldHash))
	in.Ledger.LastStart = epoch
	d := Plan(in)
	if d.Halted == "" || len(d.Started) != 0 {
		t.Fatalf("halted %q, started %v; want a halt", d.Halted, d.Started)
	}
	in.Ledger = d.Ledger
	in.Nodes[0], in.Nodes[1] = nodeOf("a", newHash), nodeOf("b", newHash)
	if d := Plan(in); d.Halted != "" || len(d.Started) != 1 {
		t.Errorf("halted %q, started %v when both are back; want node c started", d.Halted, d.Started)
	}
}

// givenBack returns a node that gave its slot back that long ago, and whose new pod is not Ready since a later time.
func givenBack(name string, ago, since time.Duration) Node {
	n := withPod(nodeOf(name, newHash), func(p *Pod) {
		p.Available, p.NotReadySince, p.NotReadyEarliest = false, epoch.Add(-since), epoch.Add(-since)
	})
	n.ReadySince = epoch.Add(-time.Hour)
	n.Replaced = map[string]time.Time{"kube-system/a": epoch.Add(-ago)}
	return n
}

// with changes a node.
func with(n Node, change func(*Node)) Node {
	change(&n)
	return n
}

func TestANodeThatStopsWorkingAfterItGaveItsSlotBackFailed(t *testing.T) {
	crashes := func() Node {
		return withPod(givenBack("a", 2*time.Minute, 20*time.Second), func(p *Pod) { p.CrashLooping = "main" })
	}
	crashesLate := func(after, ran time.Duration) Node {
		return withPod(givenBack("a", after, 0), func(p *Pod) { p.CrashLooping, p.Ran = "main", ran })
	}
	hangs := func(since time.Duration) Node { return givenBack("a", since+time.Minute, since) }
	progress := DefaultDeadlines.Progress
	tests := []struct {
		name    string
		node    Node
		change  func(*Input)
		failed  Reason
		recheck time.Duration
	}{
		{"its new pod crash-loops", crashes(), nil, ReasonCrashLooping, 0},
		{"its new pod has not been available for long", hangs(progress - time.Minute), nil, "", time.Minute},
		{"its new pod has not been available for the deadline", hangs(progress), nil, ReasonProgressDeadlineExceeded, 0},
		{"not a node that gave back no slot", with(crashes(), func(n *Node) { n.Replaced = nil }), nil, "", 0},
		{"not for a member that was not replaced", with(crashes(), func(n *Node) { n.Replaced = map[string]time.Time{"kube-system/b": epoch.Add(-2 * time.Minute)} }), nil, "", 0},
		{"not for a pod of an earlier revision", withPod(crashes(), func(p *Pod) { p.Revision = oldHash }), func(in *Input) { in.Settings.Paused = true }, "", 0},
		{"not for a pod of a revision that the node is kept at", withPod(crashes(), func(p *Pod) { p.Revision = oldHash }), func(in *Input) {
			in.Ledger.Pins = []Pin{{Node: "a", UID: "uid-a", Member: "kube-system/a", Revision: oldHash, From: newHash}}
		}, "", 0},
		{"not for a pod that waits at the gate, in place of one that was missing for long", withPod(hangs(progress), func(p *Pod) { p.Gated, p.Created = true, epoch }), nil, "", 0},
		{"not for a pod that is deleted", withPod(crashes(), func(p *Pod) { p.Terminating = true }), nil, "", 0},
		{"not if it worked for long", givenBack("a", 3*progress, progress), nil, "", 0},
		{"if it ran for minutes before each crash", crashesLate(4*progress, progress-time.Second), nil, ReasonCrashLooping, 0},
		{"if a person resumed the rollout after the deadline", crashesLate(progress+2*time.Minute, time.Minute), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-time.Minute) }, ReasonCrashLooping, 0},
		{"not if it ran for longer before the last one", crashesLate(4*progress, progress), nil, "", 0},
		{"not if it crashes later", crashesLate(4*progress+time.Second, time.Second), nil, "", 0},
		{"not if it was not Ready before the slot ended", withPod(givenBack("a", time.Minute, 2*time.Minute), func(p *Pod) { p.CrashLooping = "main" }), nil, "", 0},
		{"if it stopped in the second in which the slot ended", withPod(givenBack("a", progress, progress), func(p *Pod) { p.NotReadySince = p.NotReadySince.Add(-time.Second) }), nil, ReasonProgressDeadlineExceeded, 0},
		{"not if an operation has ended since", with(crashes(), func(n *Node) { n.Ended = []End{{ID: "of-another", Time: epoch.Add(-time.Minute), Touched: true}} }), nil, "", 0},
		{"if it touched nothing", with(crashes(), func(n *Node) { n.Ended = []End{{ID: "of-another", Time: epoch.Add(-time.Minute)}} }), nil, ReasonCrashLooping, 0},
		{"if one ended before", with(crashes(), func(n *Node) { n.Ended = []End{{ID: "ours", Time: epoch.Add(-3 * time.Minute), Touched: true}} }), nil, ReasonCrashLooping, 0},
		{"not if the node was offline since", with(crashes(), func(n *Node) { n.ReadySince = epoch.Add(-10 * time.Second) }), nil, "", 0},
		{"not when a person resumed the rollout since", crashes(), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-10 * time.Second) }, "", 0},
		{"if it crashes again after a person resumed the rollout", crashes(), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-time.Minute) }, ReasonCrashLooping, 0},
		{"not if it may have crashed before", withPod(crashes(), func(p *Pod) { p.NotReadyEarliest = epoch.Add(-2 * time.Minute) }), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-time.Minute) }, "", 0},
		{"not while another group works on the node", with(crashes(), func(n *Node) { n.Disturbed, n.Operation = true, &Operation{ID: "x", Granted: true} }), nil, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node, nodeOf("b", newHash))
			if tt.change != nil {
				tt.change(&in)
			}
			d := Plan(in)
			var failed Reason
			if len(d.Ledger.Failures) > 0 {
				failed = d.Ledger.Failures[0].Reason
			}
			if failed != tt.failed || tt.recheck != 0 && d.Recheck != tt.recheck {
				t.Errorf("failed %q, decides again after %s; want %q, %s", failed, d.Recheck, tt.failed, tt.recheck)
			}
		})
	}
}

func TestOfTwoPodsThatStoppedWorkingTheOneThatCrashLoopsIsBlamed(t *testing.T) {
	n := givenBack("a", 2*time.Minute, 20*time.Second)
	n.Pods = append(n.Pods, n.Pods[0])
	n.Pods[1].Member, n.Pods[1].UID, n.Pods[1].CrashLooping = 1, "uid-other", "main"
	n.Replaced["kube-system/b"] = epoch.Add(-2 * time.Minute)
	in := inputOf(1, n)
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	if d := Plan(in); len(d.Ledger.Failures) != 1 || !slices.Equal(d.Ledger.Failures[0].Targets, []Target{{"kube-system/b", newHash}}) {
		t.Errorf("failures %+v", d.Ledger.Failures)
	}
}

func TestTheSlotsWhoseWorkIsOverAreSaid(t *testing.T) {
	slotFor := func(name string, age time.Duration) Slot {
		slot := slotOf(nodeOf(name, oldHash), age)
		slot.Members = []string{"kube-system/a"}
		return slot
	}
	in := inputOf(4, nodeOf("a", newHash), broken(nodeOf("b", newHash)), broken(nodeOf("c", newHash))).slots(slotFor("a", time.Minute), slotFor("b", time.Minute), slotFor("c", time.Hour))
	d := Plan(in)
	var over []string
	for _, slot := range d.Over {
		over = append(over, slot.Node)
		if !slices.Equal(slot.Members, []string{"kube-system/a"}) {
			t.Errorf("the slot of %s was for %v", slot.Node, slot.Members)
		}
	}
	if !slices.Equal(over, []string{"a", "c"}) || d.Counts.Failed != 1 {
		t.Errorf("over are the slots of %v, failures %+v", over, d.Ledger.Failures)
	}
}

func TestAVersionIsNotKnownWhileWhatItReplacedWasNotReadyShortlyBefore(t *testing.T) {
	again := func(ago time.Duration) Node {
		n := withPod(nodeOf("a", newHash), func(p *Pod) { p.ReadyAgain = epoch.Add(-ago) })
		n.Replaced = map[string]time.Time{"kube-system/a": epoch.Add(-5 * time.Minute)}
		return n
	}
	away := func(n Node) Node {
		n.Ready, n.ReadySince, n.ReadyWritten = false, epoch.Add(-time.Minute), epoch.Add(-time.Minute)
		return n
	}
	crashed := func(ago, ran time.Duration) Node {
		return withPod(nodeOf("a", newHash), func(p *Pod) { p.Created, p.ReadyAgain, p.Ran = epoch.Add(-20*time.Minute), epoch.Add(-ago), ran })
	}
	for _, tt := range []struct {
		name    string
		node    Node
		quiet   bool
		recheck time.Duration
	}{
		{"never restarted", nodeOf("a", newHash), true, 0},
		{"Ready again since a moment", again(20 * time.Second), false, 100 * time.Second},
		{"Ready again for the time of a probation", again(2 * time.Minute), true, 0},
		{"not Ready", givenBack("a", 5*time.Minute, time.Minute), false, 5 * time.Minute},
		{"replaced long ago", with(again(20*time.Second), func(n *Node) {
			n.Replaced = map[string]time.Time{"kube-system/a": epoch.Add(-DefaultDeadlines.Progress)}
			n.Pods[0].Ran = DefaultDeadlines.Progress
		}), true, 0},
		{"replaced long ago, and it ran for a minute", crashed(2*time.Minute-time.Second, time.Minute), false, time.Second},
		{"and for a minute before that", crashed(2*time.Minute, time.Minute), true, 0},
		{"it runs for five minutes", crashed(10*time.Minute-time.Second, 5*time.Minute), false, time.Second},
		{"it runs for a second", crashed(119*time.Second, 0), false, time.Second},
		{"it ran for a week", crashed(time.Second, 7*24*time.Hour), true, 0},
		{"not Ready, and now the node is offline", away(givenBack("a", 5*time.Minute, 2*time.Minute)), false, 5 * time.Minute},
		{"it crashes, was replaced long ago, and now the node is offline", withPod(away(givenBack("a", time.Hour, 4*time.Minute)), func(p *Pod) { p.Created, p.Ran = epoch.Add(-45*time.Minute), time.Minute }), false, 6 * time.Minute},
		{"it does not, and is offline", away(givenBack("a", time.Hour, 4*time.Minute)), true, 0},
	} {
		if d := Plan(inputOf(1, tt.node)); d.IsQuiet != tt.quiet || d.Recheck != tt.recheck {
			t.Errorf("%s: quiet %t, decides again after %s; want %t, %s", tt.name, d.IsQuiet, d.Recheck, tt.quiet, tt.recheck)
		}
	}
}

func TestAPodOfAnotherVersionSaysNothingOfTheNewOne(t *testing.T) {
	in := inputOf(1, withPod(nodeOf("a", oldHash), func(p *Pod) { p.ReadyAgain, p.Ran = epoch.Add(-time.Second), time.Minute }), nodeOf("b", newHash))
	in.Settings.Paused = true
	if d := Plan(in); !d.IsQuiet {
		t.Error("a pod of the version before that crash-loops keeps the new one from being known")
	}
	in.Ledger.Pins = []Pin{{Node: "a", UID: "uid-a", Member: "kube-system/a", Revision: oldHash, From: newHash}}
	if d := Plan(in); !d.IsQuiet {
		t.Error("a pod of the version at which its node is kept keeps the new one from being known")
	}
}

func TestAFailureOfTheVersionBeforeHaltsByItsOwnShare(t *testing.T) {
	in := inputOf(1, givenBack("a", 15*time.Minute, 10*time.Minute), givenBack("b", 15*time.Minute, 10*time.Minute), nodeOf("c", newHash))
	in.Ledger.Revision, in.Ledger.Touched = "r1", 200
	if d := Plan(in); d.Counts.Failed != 2 || d.Halted != "" {
		t.Errorf("%d failed, halted %q; the threshold is a tenth of 200", d.Counts.Failed, d.Halted)
	}
}

// A pod that crash-loops is available for moments: each would end the halt.
func TestACrashLoopIsOverWhenThePodHasBeenReadyForLongerThanItRanBefore(t *testing.T) {
	looping := func(name string) Node { return crashing(nodeOf(name, newHash)) }
	in := inputOf(2, looping("a"), looping("b"), nodeOf("c", oldHash)).slots(slotOf(nodeOf("a", oldHash), time.Minute), slotOf(nodeOf("b", oldHash), time.Minute))
	d := Plan(in)
	if d.Halted == "" {
		t.Fatalf("failures %v, and no halt", d.Ledger.Failures)
	}
	in.Ledger = d.Ledger
	back := func(name string, since, ran time.Duration) Node {
		return withPod(nodeOf(name, newHash), func(p *Pod) { p.AvailableSince, p.ReadyAgain, p.Ran = epoch.Add(-time.Hour), epoch.Add(-since), ran })
	}
	for _, tt := range []struct{ since, ran, left time.Duration }{
		{29 * time.Second, time.Second, time.Second}, {30 * time.Second, 0, 0}, {119 * time.Second, time.Minute, time.Second}, {2 * time.Minute, time.Minute, 0},
		{DefaultDeadlines.Progress - time.Second, time.Hour, time.Second}, {DefaultDeadlines.Progress, time.Hour, 0},
	} {
		in.Nodes[0], in.Nodes[1] = back("a", tt.since, tt.ran), looping("b")
		if d = Plan(in); (d.Halted == "") != (tt.left == 0) || tt.left > 0 && d.Recheck != tt.left {
			t.Errorf("Ready for %s after a run of %s: halted %q, decides again after %s", tt.since, tt.ran, d.Halted, d.Recheck)
		}
	}
	in.Nodes[0] = nodeOf("a", newHash)
	if d = Plan(in); d.Halted != "" {
		t.Errorf("halted %q when one node has another pod", d.Halted)
	}
}

func TestACrashLoopIsOverThoughAnotherComponentIsStillToBeReplaced(t *testing.T) {
	in := inputOf(2, nodeOf("a", newHash, oldHash), nodeOf("b", newHash, newHash))
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonCrashLooping, Since: epoch.Add(-time.Hour), Targets: []Target{{"kube-system/a", newHash}}}}
	in.Nodes[0].Pods[0].ReadyAgain, in.Nodes[0].Pods[0].Ran = epoch.Add(-time.Minute), time.Minute
	if d := Plan(in); len(d.Ledger.Failures) != 1 || len(d.Started) > 0 {
		t.Errorf("failures %+v, started %v in a moment in which the pod is Ready", d.Ledger.Failures, d.Started)
	}
	in.Nodes[0].Pods[0].ReadyAgain = epoch.Add(-2 * time.Minute)
	if d := Plan(in); len(d.Ledger.Failures) > 0 || !slices.Equal(d.Started, []string{"a"}) {
		t.Errorf("failures %+v, started %v, want that the node goes on with the other component", d.Ledger.Failures, d.Started)
	}
}

// A new driver also replaces the pods that use the device: what it does wrong shows in them.
func TestASlotIsSaidToBeOverWithThePodsThatItsOperationReplacedAlong(t *testing.T) {
	n := withDone(nodeOf("a", newHash, newHash, newHash))
	n.Pods[0].Created, n.Pods[1].Created, n.Pods[2].Created = epoch.Add(-3*time.Minute), epoch.Add(-2*time.Minute), epoch.Add(-time.Hour)
	slot := operating(n)
	slot.Newest = epoch.Add(-time.Hour)
	in := heavyInput(1, n)
	in.Members = append(in.Members, Member{Key: "kube-system/nfd", Target: newHash})
	light := slot
	light.Operation = ""
	for name, tt := range map[string]struct {
		slot Slot
		want []string
	}{
		"under an operation": {slot, []string{"kube-system/driver", "kube-system/exporter"}},
		"without one":        {light, []string{"kube-system/driver"}}, // somebody else deleted the other pod
	} {
		d := Plan(in.slots(tt.slot))
		if len(d.Over) != 1 || !slices.Equal(d.Over[0].Members, tt.want) {
			t.Errorf("%s: over is %+v, want a slot for %v", name, d.Over, tt.want)
		}
	}
	if !slices.Equal(slot.Members, []string{"kube-system/driver"}) {
		t.Errorf("the slot itself is for %v now", slot.Members)
	}
}

func TestASlotWhoseNodeIsQueuedAgainIsOver(t *testing.T) {
	a := inVersion(nodeOf("a", newHash, oldHash), "1")
	a.Pods[1].Version = "2"
	slot := slotOf(a, time.Minute)
	slot.Pod, slot.PodVersion, slot.Members = "former", "0", []string{"kube-system/a"}
	in := inputOf(1, missing(nodeOf("b", oldHash)), a).slots(slotOf(nodeOf("b"), time.Minute), slot)
	in.Ledger.Slots[0].Turn, in.Ledger.Slots[1].Turn = 1, 2
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	if d := Plan(in); !slices.Equal(queued(d), []string{"a"}) || len(d.Over) != 1 || !slices.Equal(d.Over[0].Members, []string{"kube-system/a"}) {
		t.Errorf("queued %v, over %+v", queued(d), d.Over)
	}
}
