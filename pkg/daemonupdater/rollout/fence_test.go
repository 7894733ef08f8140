package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// naming returns a slot that permits deleting the pod of member a at a version.
func naming(n Node, version string) Slot {
	s := slotOf(n, time.Minute)
	s.Pod, s.PodVersion, s.Members = n.Pods[0].UID, version, []string{"kube-system/a"}
	return s
}

func inVersion(n Node, version string) Node {
	return withPod(n, func(p *Pod) { p.Version = version })
}

// TestASlotIsGivenBackWhenItsDeletionCannotHappenAnyMore: the pod that the slot names is at the
// target again, so nothing is left to do on the node.
func TestASlotIsGivenBackWhenItsDeletionCannotHappenAnyMore(t *testing.T) {
	atTarget := func(version string) Node { return inVersion(nodeOf("a", newHash), version) }
	successor := withPod(atTarget("101"), func(p *Pod) { p.UID = "successor" })
	tests := []struct {
		name   string
		node   Node
		kept   bool
		fenced []types.UID
	}{
		{"not while the pod is as the slot names it: it is fenced", atTarget("100"), true, []types.UID{"pod-a-0-new"}},
		{"when the pod was written to since", atTarget("101"), false, nil},
		{"not when the pod is seen as it was before: the cache is behind", atTarget("99"), true, nil},
		{"when its successor is there", successor, false, nil},
		{"not when the pod before the one it names is seen: the cache is behind", withPod(atTarget("9"), func(p *Pod) { p.UID = "before" }), true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node).slots(naming(nodeOf("a", newHash), "100"))
			d := Plan(in)
			if kept := len(d.Ledger.Slots) == 1; kept != tt.kept {
				t.Errorf("slot kept: %v, want %v", kept, tt.kept)
			}
			var fenced []types.UID
			for _, p := range d.Fence {
				fenced = append(fenced, p.UID)
			}
			if diff := cmp.Diff(tt.fenced, fenced); diff != "" {
				t.Errorf("fenced (-want +got):\n%s", diff)
			}
		})
	}
}

// endedCases are nodes whose slots name the pod of the exporter, in version 100, and end for other reasons than that nothing is
// left to do.
func endedCases() map[string]Input {
	exporter := func(n Node, version string, available bool) Node {
		n.Pods[1].Version, n.Pods[1].Available = version, available
		return n
	}
	under := func(n Node, operation string) Input {
		slot := slotOf(n, 3*time.Hour)
		slot.Operation, slot.Pod, slot.PodVersion, slot.Members = operation, n.Pods[1].UID, "100", []string{"kube-system/driver", "kube-system/exporter"}
		return heavyInput(1, n).slots(slot)
	}
	light := func() Node { return nodeOf("a", newHash, oldHash) }
	theirs := exporter(withJob(light(), &Operation{ID: "theirs", Granted: true}), "100", true)
	obsolete := ota(under(exporter(light(), "100", true), "op-a"))
	obsolete.Revision = "r3"
	lost := offline(exporter(light(), "100", false))
	lost.ReadySince = epoch.Add(-time.Hour)
	return map[string]Input{
		"its operation ended without a result, and the node is available":     under(withEnd(exporter(light(), "100", true), ""), "op-a"),
		"its operation failed, for a target that is one again":                under(withEnd(exporter(light(), "100", true), ReasonOperationFailed), "op-a"),
		"its operation ended without a result, and the node gets another one": under(withEnd(exporter(heavyNode("a"), "100", false), ""), "op-a"),
		"its node is lost":                    under(lost, ""),
		"its deadline is over":                under(exporter(light(), "100", false), ""),
		"a pod of it crashes":                 under(exporter(crashing(light()), "100", true), ""),
		"another group works on its node":     under(theirs, "op-a"),
		"its target is not the requested one": obsolete,
		"a node in flight gets an operation":  under(exporter(heavyNode("a"), "100", false), ""),
	}
}

// While the pod is as the slot names it, a manager that was suspended may still delete it.
func TestASlotThatEndsIsKeptUntilItsDeletionCannotHappenAnyMore(t *testing.T) {
	for name, in := range endedCases() {
		t.Run(name, func(t *testing.T) {
			pod := &in.Nodes[0].Pods[1]
			in.Settings.Paused = true // it gets no other slot
			d := Plan(in)
			if len(d.Fence) != 1 || d.Fence[0].UID != pod.UID || len(d.Delete) != 0 || len(d.Operations) != 0 || len(d.Ledger.Failures) != 0 {
				t.Errorf("fenced %v, deleted %v, operations %v, failed %v; want the pod that the slot names fenced, and nothing else", d.Fence, d.Delete, d.Operations, d.Ledger.Failures)
			}
			if len(d.Ledger.Slots) != 1 || d.Ledger.Slots[0].Pod != pod.UID || d.Ledger.Slots[0].PodVersion != "100" {
				t.Fatalf("slots %+v, want the one that names the pod", d.Ledger.Slots)
			}
			in.Ledger, pod.Version = d.Ledger, "101"
			d = Plan(in)
			if slots := d.Ledger.Slots; len(d.Fence) != 0 || len(slots) == 1 && slots[0].Pod != "" {
				t.Errorf("fenced %v, slots %+v when the fence is seen; want none that names the pod", d.Fence, slots)
			}
		})
	}
}

// drawIntents draws the versions of pods, which pods the slots name, in version 5, and what became of operations under them.
func drawIntents(t *rapid.T, in *Input) {
	for i := range in.Members {
		in.Members[i].Heavy = rapid.IntRange(0, 4).Draw(t, "heavy") == 0
	}
	for i := range in.Nodes {
		for k := range in.Nodes[i].Pods {
			in.Nodes[i].Pods[k].Version = rapid.SampledFrom([]string{"4", "5", "6"}).Draw(t, "version")
		}
	}
	for i := range in.Ledger.Slots {
		slot := &in.Ledger.Slots[i]
		n := &in.Nodes[slices.IndexFunc(in.Nodes, func(n Node) bool { return n.Name == slot.Node })]
		pod := rapid.SampledFrom(n.Pods).Draw(t, "named")
		if pod.UID == "" {
			continue
		}
		slot.Pod, slot.PodVersion, slot.Members = pod.UID, "5", []string{fmt.Sprint("ds", pod.Member)}
		slot.Queued = rapid.IntRange(0, 3).Draw(t, "queued") == 0
		if slot.Queued || rapid.Bool().Draw(t, "no operation") {
			continue
		}
		slot.Operation = "op-" + n.Name
		switch end := rapid.SampledFrom([]string{"", string(ReasonOperationFailed), "done", "forgotten"}).Draw(t, "end"); end {
		case "done":
			*n = withDone(*n)
		case "forgotten":
		default:
			*n = withEnd(*n, Reason(end))
		}
	}
}

// An earlier decision to delete the pod may be carried out as long as the pod is in the version that the slot names.
func TestASlotNamesItsPodAsLongAsThatMayBeDeleted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawIntents(t, &in)
		d := Plan(in)
		for _, s := range in.Ledger.Slots {
			n := in.Nodes[slices.IndexFunc(in.Nodes, func(n Node) bool { return n.Name == s.Node })]
			possible := slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.UID != "" && p.UID == s.Pod && p.Version == s.PodVersion && !p.Terminating })
			kept := slices.ContainsFunc(d.Ledger.Slots, func(k Slot) bool { return k.Node == s.Node && k.Pod == s.Pod && k.PodVersion == s.PodVersion })
			if possible && !kept {
				t.Fatalf("the slot of %s no longer names pod %s, which may still be deleted; fenced %v", s.Node, s.Pod, d.Fence)
			}
		}
		for _, p := range d.Fence {
			if slices.ContainsFunc(d.Delete, func(x Pod) bool { return x.UID == p.UID }) {
				t.Fatalf("pod %s is fenced and deleted", p.Name)
			}
		}
	})
}

func TestASlotKeptByADeniedFenceReportsIt(t *testing.T) {
	node := inVersion(nodeOf("a", newHash), "100")
	node.DeniedFence = &Denial{Object: node.Pods[0].UID, Since: epoch, Retry: epoch.Add(time.Second), Message: "policy says no"}
	in := inputOf(1, node).slots(naming(node, "100"))
	d := Plan(in)
	const why = "the API server denied a write to a pod of the node that must come before its slot is given back; retrying: policy says no"
	if v, _ := d.Verdict("a"); v.State != InFlight || v.Reason != ReasonFenceDenied || v.Message != why || len(d.Fence) != 1 || len(d.Ledger.Slots) != 1 {
		t.Errorf("verdict %+v, fenced %v", v, d.Fence)
	}
	in.Nodes[0].Pods[0].Version = "101" // somebody else wrote to it
	if d := Plan(in); len(d.Ledger.Slots) != 0 || len(d.Fence) != 0 {
		t.Errorf("slots %v, fenced %v, want neither", d.Ledger.Slots, d.Fence)
	}
}

// Also on a node that is offline: it is past its deadline, and that it comes back is not what its slot waits for.
func TestWhateverASlotEndsForADeniedFenceIsReported(t *testing.T) {
	for name, in := range endedCases() {
		t.Run(name, func(t *testing.T) {
			n := &in.Nodes[0]
			n.DeniedFence = &Denial{Object: n.Pods[1].UID, Since: epoch, Retry: epoch.Add(time.Second), Message: "policy says no"}
			in.Settings.Paused = true // it gets no other slot
			d := Plan(in)
			if v, _ := d.Verdict("a"); v.State != InFlight || v.Reason != ReasonFenceDenied || len(d.Fence) != 1 {
				t.Errorf("verdict %+v, fenced %v", v, d.Fence)
			}
		})
	}
}

// The healthy nodes after it wait for it.
func TestAQueuedNodeThatKeepsItsSlotByADeniedFenceReportsIt(t *testing.T) {
	in := inputOf(1, fleetInVersions(3)...)
	d := Plan(in)
	waits := queued(d)[0]
	in.Ledger = d.Ledger
	finish(&in, d.Started[0])
	n := &in.Nodes[indexOf(in.Nodes, waits)]
	*n = held(*n)
	for _, denied := range []*Denial{nil, {Object: n.Pods[0].UID, Since: epoch, Retry: epoch.Add(time.Second), Message: "policy says no"}} {
		n.DeniedFence = denied
		d = Plan(in)
		want := Verdict{Node: waits, State: Held, Reason: ReasonNodeHeld}
		if denied != nil {
			want.State, want.Reason = Pending, ReasonFenceDenied
		}
		v, _ := d.Verdict(waits)
		reported := slices.ContainsFunc(d.Waiting, func(w Waiting) bool { return w.Reason == want.Reason && w.Nodes == 1 })
		if v.State != want.State || v.Reason != want.Reason || !reported || len(queued(d)) != 1 || len(d.Fence) != 1 || len(d.Started) != 0 {
			t.Errorf("denied: %t, verdict %+v, waiting %+v, queued %v, fenced %d, started %v", denied != nil, v, d.Waiting, queued(d), len(d.Fence), d.Started)
		}
	}
}

func TestASlotNamesAnotherPodOnlyWhenTheFirstCannotBeDeletedAnyMore(t *testing.T) {
	node := nodeOf("a", newHash, oldHash)
	node.Pods[0].Version, node.Pods[1].Version = "100", "50"
	in := inputOf(1, node).slots(naming(node, "100"))
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	if d := Plan(in); len(d.Delete) != 0 || len(d.Fence) != 1 || d.Ledger.Slots[0].Pod != node.Pods[0].UID {
		t.Fatalf("delete %v, fence %v, slot %+v; want the pod named first fenced, and nothing else", d.Delete, d.Fence, d.Ledger.Slots[0])
	}
	in.Nodes[0].Pods[0].Version = "101"
	d := Plan(in)
	if len(d.Delete) != 1 || d.Delete[0].UID != node.Pods[1].UID || d.Delete[0].Version != "50" {
		t.Fatalf("delete %+v, want the pod of the second member in version 50", d.Delete)
	}
	if diff := cmp.Diff([]string{"kube-system/a", "kube-system/b"}, d.Ledger.Slots[0].Members); diff != "" {
		t.Errorf("members of the slot (-want +got):\n%s", diff)
	}
}

// TestAPodIsDeletedInTheNewestVersionKnownOfIt: a cached pod older than the version that the slot
// names proves nothing.
func TestAPodIsDeletedInTheNewestVersionKnownOfIt(t *testing.T) {
	node := nodeOf("a", oldHash)
	tests := []struct {
		name, seen, named string
		deleted           int
	}{
		{"as the slot names it", "100", "100", 1},
		{"in a later version, which the slot then names", "101", "101", 1},
		{"not while an earlier version is seen: it may look unavailable and be available", "99", "100", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(inputOf(1, broken(inVersion(node, tt.seen))).slots(naming(node, "100")))
			if len(d.Delete) != tt.deleted || d.Ledger.Slots[0].PodVersion != tt.named {
				t.Fatalf("delete %+v, slot %+v; want %d deletions and version %s named", d.Delete, d.Ledger.Slots, tt.deleted, tt.named)
			}
			for _, x := range d.Delete {
				if x.Version != tt.named {
					t.Errorf("deleted in version %s, want %s", x.Version, tt.named)
				}
			}
		})
	}
}

// TestASlotIsHeldUnderOTAUntilThePodPutThereIsAvailable: even if that pod is outdated again and
// has no new request.
func TestASlotIsHeldUnderOTAUntilThePodPutThereIsAvailable(t *testing.T) {
	node := broken(nodeOf("a", "between"))
	in := ota(inputOf(1, node, nodeOf("b", oldHash)).slots(naming(node, "")))
	if d := Plan(in); len(d.Ledger.Slots) != 1 {
		t.Errorf("slots = %v, want node a to keep its own", d.Ledger.Slots)
	}
	in.Nodes[0].Pods[0].Available = true
	if d := Plan(in); len(d.Ledger.Slots) != 0 {
		t.Errorf("slots = %v when the pod is available, want none", d.Ledger.Slots)
	}
}

func TestAGroupWithoutAStrategyGivesItsSlotsBackFenced(t *testing.T) {
	node := inVersion(broken(nodeOf("a", oldHash)), "100")
	in := inputOf(1, node).slots(naming(node, "100"))
	in.Settings = daemonset.Settings{Strategy: daemonset.NoStrategy}
	if d := Plan(in); len(d.Fence) != 1 || len(d.Ledger.Slots) != 1 {
		t.Errorf("fence %v, slots %v; want the pod fenced and the slot kept", d.Fence, d.Ledger.Slots)
	}
	in.Nodes[0].Pods[0].Version = "101"
	if d := Plan(in); len(d.Fence) != 0 || len(d.Ledger.Slots) != 0 {
		t.Errorf("fence %v, slots %v; want neither", d.Fence, d.Ledger.Slots)
	}
}

// A version that a restored backup took back is given out again, to another pod perhaps.
func TestASlotIsReversedByWhatItCannotNameAnyMore(t *testing.T) {
	slot := naming(nodeOf("a", oldHash), "100")
	another := func(version string) Node {
		return withPod(inVersion(nodeOf("a", oldHash), version), func(p *Pod) { p.UID = "another" })
	}
	for _, tt := range []struct {
		name string
		node Node
		want bool
	}{
		{"an older version of its pod", inVersion(nodeOf("a", oldHash), "99"), true},
		{"not the version it names", inVersion(nodeOf("a", oldHash), "100"), false},
		{"an older version of another pod", another("99"), true},
		{"the same version of another pod", another("100"), true},
		{"not a newer version", another("101"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node)
			reversed := NewFleet(&in).Reversed([]Slot{slot}, epoch)
			if got := len(reversed) == 1; got != tt.want {
				t.Errorf("reversed: %v, want %v", got, tt.want)
			}
		})
	}
}

// The start of a slot of which a clock that was ahead says that it is to come is no new one.
func TestASlotIsReversedUnlessItIsNew(t *testing.T) {
	in := inputOf(1, inVersion(nodeOf("a", oldHash), "99"))
	for since, want := range map[time.Duration]bool{-time.Second: true, 30 * time.Second: false, 3 * time.Hour: true} {
		slot := naming(nodeOf("a", oldHash), "100")
		slot.Since = epoch.Add(since)
		if got := len(NewFleet(&in).Reversed([]Slot{slot}, epoch)) == 1; got != want {
			t.Errorf("started %s after the time: reversed: %t, want %t", since, got, want)
		}
	}
}
