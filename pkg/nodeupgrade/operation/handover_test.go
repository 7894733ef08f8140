package operation

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// keptCordoned returns the facts after an operation failed and kept its node cordoned, and before another one of its rollout takes
// the cordon over.
func keptCordoned(t *testing.T) Facts {
	t.Helper()
	f := reach(t, "driver_verify", everything...)
	later(5 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	if op := f.Operation; !op.Held || f.Node.Cordon.Mark != op.ID {
		t.Fatalf("the node is not kept cordoned: %s, marked %q", op.Phase, f.Node.Cordon.Mark)
	}
	f.Wanted = f.Wanted.DeepCopy()
	f.Wanted.ID, f.Node.Taint = "next", ""
	return f
}

// handedOver returns the facts once it has taken the cordon over, and does not pass its prechecks yet.
func handedOver(t *testing.T) Facts {
	t.Helper()
	f := keptCordoned(t)
	f.Record = newMachine(t).Next(f).Record
	if op := f.Operation; op.ID != "next" || op.CordonedBy != "op" {
		t.Fatalf("operation %s began, with the cordon of %q", op.ID, op.CordonedBy)
	}
	f.Node.OtherUpgrader = "kured"
	f.Record = newMachine(t).Next(f).Record
	return f
}

// A node that an operation failed on and that the next one did not touch still has on it what failed.
func TestANodeThatTheNextOperationDoesNotReplaceAnythingOnStaysCordoned(t *testing.T) {
	for _, tc := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"deferred by its prechecks", []func(*Facts){later(10 * time.Minute)}, "Deferred held node_precheck PrecheckFailed"},
		{"replaced by another one", []func(*Facts){func(f *Facts) { f.Wanted.ID = "third" }}, "Aborted held node_precheck Superseded"},
		{"of another target", []func(*Facts){func(f *Facts) {
			for i := range f.Members {
				f.Members[i].Newest = "v3"
			}
		}}, "Aborted held node_precheck TargetChanged"},
		{"of another target, with its own on the node", []func(*Facts){func(f *Facts) {
			i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "driver" })
			if f.Members[i].Pod.Revision != f.Members[i].Newest {
				panic("the driver is not replaced yet")
			}
			f.Members[i].Newest = "v3"
		}}, "Aborted held node_precheck TargetChanged"},
		{"aborted by a person", []func(*Facts){func(f *Facts) { f.Wanted.Abort = true }}, "Releasing then Aborted node_precheck Aborted Uncordon"},
		{"at the end of its rollout", []func(*Facts){func(f *Facts) { f.Wanted = nil }}, "Releasing then Aborted node_precheck Withdrawn Uncordon"},
		{"on a new Node object", []func(*Facts){func(f *Facts) { f.Node.UID, f.Node.Cordon.Mark = "new", "" }}, "Aborted NodeReplaced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := handedOver(t)
			f.Wanted = f.Wanted.DeepCopy()
			for _, with := range tc.with {
				with(&f)
			}
			d := newMachine(t).Next(f)
			for range 5 {
				if Over(d.Record.Operation) || d.Record.Operation.Held || len(d.Effects) > 0 {
					break
				}
				f.Record = d.Record
				d = newMachine(t).Next(f)
			}
			if got := summaryOf(d); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheCordonIsHandedOnUntilAnOperationIsDone(t *testing.T) {
	f := handedOver(t)
	later(10 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	f.Wanted = f.Wanted.DeepCopy()
	f.Wanted.ID, f.Node.OtherUpgrader = "third", ""
	f.Record = newMachine(t).Next(f).Record
	op := f.Operation
	if op.ID != "third" || CordonMark(op) != "op" || f.Node.Cordon.Mark != "op" {
		t.Fatalf("operation %s began, with the cordon of %q; the node has that of %q", op.ID, CordonMark(op), f.Node.Cordon.Mark)
	}
	if d := newMachine(t).Next(f); len(d.Effects) > 0 {
		t.Errorf("the cordon of an earlier operation is taken for a leftover: %s", summaryOf(d))
	}
	op.Phase, op.Outcome, op.Touched = topsv1.OperationReleasing, topsv1.OperationDone, true
	if got := summaryOf(newMachine(t).Next(f)); got != "Releasing then Done InProgress Uncordon" {
		t.Error(got)
	}
}

// What a failed operation left on a node is no measure: the baseline is what the node was before it. A resource that the node
// no longer has, or whose device plugin is gone, is not missing.
func TestTheBaselineIsHandedOnWithTheCordon(t *testing.T) {
	const card = "enflame.com/gcu"
	for _, tc := range []struct {
		name      string
		failed    topsv1.NodeBefore
		with      []func(*Facts)
		devices   int32
		cards     map[string]int64
		driver    string
		unchecked bool
	}{
		{name: "the failed version broke cards", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8}},
			devices: 8, cards: map[string]int64{card: 8}, driver: "v2"},
		{name: "it did not load", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8}},
			with: []func(*Facts){func(f *Facts) { f.Host.DriverVersion = "" }}, devices: 8, cards: map[string]int64{card: 8}, driver: "v1"},
		{name: "a card came since", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 2, Allocatable: map[string]int64{card: 2}},
			devices: 3, cards: map[string]int64{card: 3}, driver: "v2"},
		{name: "no driver counted the cards", failed: topsv1.NodeBefore{Devices: 8, Allocatable: map[string]int64{card: 0}},
			devices: 3, cards: map[string]int64{card: 3}, driver: "v2"},
		{name: "a resource has another name", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8, "a.com/x": 8}},
			devices: 8, cards: map[string]int64{card: 8}, driver: "v2"},
		{name: "a resource was renamed", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{"a.com/x": 8}},
			with:    []func(*Facts){func(f *Facts) { f.Node.Allocatable = map[string]int64{card: 3, "a.com/x": 0} }},
			devices: 8, cards: map[string]int64{card: 3, "a.com/x": 0}, driver: "v2"},
		{name: "the plugin of another gr is outdated", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8}},
			with: []func(*Facts){func(f *Facts) {
				f.Node.Allocatable = map[string]int64{card: 0}
				i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "devicePlugin" })
				other := f.Members[i]
				other.Component, other.Newest, other.Pod = "gcusharePlugin", "newer", &Pod{Revision: "old"}
				f.Members = append(slices.Clone(f.Members), other)
			}}, devices: 8, cards: map[string]int64{card: 0}, driver: "v2"},
		{name: "the device plugin is gone", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8}},
			with: []func(*Facts){func(f *Facts) {
				f.Members = slices.DeleteFunc(slices.Clone(f.Members), func(m Member) bool { return m.Component == "devicePlugin" })
			}}, devices: 8, cards: map[string]int64{card: 3}, driver: "v2"},
		{name: "the precheck does not pass", failed: topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: map[string]int64{card: 8}},
			with: []func(*Facts){func(f *Facts) { f.Node.OtherUpgrader = "kured" }}, devices: 8, cards: map[string]int64{card: 8}, driver: "v1", unchecked: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := keptCordoned(t)
			f.Operation.Before = &tc.failed
			f.Host.DriverVersion, f.Host.Devices, f.Node.Allocatable = "v2", ptr.To(int32(3)), map[string]int64{card: 3}
			for _, with := range tc.with {
				with(&f)
			}
			f.Record = newMachine(t).Next(f).Record
			if op := f.Operation; op.ID != "next" || Prechecked(op) || !NeedsDrained(f) {
				t.Fatalf("operation %s, prechecked %t, looks at the drain %t: it has checked nothing yet", op.ID, Prechecked(op), NeedsDrained(f))
			}
			for range 5 {
				f.Now = f.Now.Add(offerGrace / 4)
				f.Record = newMachine(t).Next(f).Record
			}
			op := f.Operation
			if Prechecked(op) == tc.unchecked {
				t.Fatalf("prechecked: %t, %s %s", !tc.unchecked, op.Reason, op.Message)
			}
			want := topsv1.NodeBefore{DriverVersion: tc.driver, Devices: tc.devices, Allocatable: tc.cards, BootID: op.Before.BootID}
			if diff := cmp.Diff(want, *op.Before); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			override("retry:n1_node_precheck")(&f)
			for range 5 {
				f.Record = newMachine(t).Next(f).Record
			}
			if diff := cmp.Diff(want, *f.Operation.Before); diff != "" {
				t.Errorf("once a person repeated the precheck (-want +got):\n%s", diff)
			}
		})
	}
}
