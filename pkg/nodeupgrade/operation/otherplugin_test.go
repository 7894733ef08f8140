package operation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// That the node offers no cards with a device plugin which another gr has yet to replace, and offered none before,
// says nothing about the version of the operation. A node that stayed cordoned for it could not get another plugin.
func TestAnOperationDoesNotFailByThePluginOfAnotherGroup(t *testing.T) {
	const failed, deferred = "Failed held allocatable_verify VerifyFailed", "Releasing then Deferred allocatable_verify VerifyFailed"
	outdated := func(f *Facts) { pod(f, upgradeplan.TargetDevicePlugin).Revision = "v0" }
	broken := func(f *Facts) { pod(f, upgradeplan.TargetDevicePlugin).Available = false }
	offeredBefore := func(f *Facts) { f.Record.Operation.Before.Allocatable["enflame.com/gcu"] = 8 }
	newer := func(f *Facts) {
		i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })
		f.Members[i].Newest = "v3"
	}
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"a plugin that works otherwise lacks what the operation was to bring", nil, failed},
		{"one that is outdated is for its own gr to replace", []func(*Facts){outdated}, deferred},
		{"but the node offered cards with it before", []func(*Facts){outdated, offeredBefore}, failed},
		{"what the operation brings may break one that is not outdated", []func(*Facts){broken}, failed},
		{"a newer revision is for its own gr to bring", []func(*Facts){newer}, deferred},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "allocatable_verify", toolkitOnly...)
			f.Node.Allocatable["enflame.com/gcu"], f.Record.Operation.Before.Allocatable["enflame.com/gcu"] = 0, 0
			pod(&f, upgradeplan.TargetDevicePlugin).Available = true
			pod(&f, upgradeplan.TargetDevicePlugin).Created = f.Record.Operation.StartTime.Add(time.Second)
			for _, change := range tt.with {
				change(&f)
			}
			later(5*time.Minute - time.Second)(&f)
			if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
				t.Errorf("before the deadline: %s", got)
			}
			later(time.Second)(&f)
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if text, names := d.Record.Operation.Message, pod(&f, upgradeplan.TargetDevicePlugin).Name; strings.Contains(text, names) != (tt.want == deferred) {
				t.Errorf("%q names pod %s: %t", text, names, tt.want != deferred)
			}
		})
	}
}

// What it replaces itself is of its version.
func TestAnOperationFailsByThePluginThatItReplaces(t *testing.T) {
	f := reach(t, "node_soak", upgradeplan.TargetToolkit, upgradeplan.TargetDevicePlugin)
	f.Node.Allocatable["enflame.com/gcu"], f.Record.Operation.Before.Allocatable["enflame.com/gcu"] = 0, 0
	f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })].Newest = "v3"
	later(time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	later(5 * time.Minute)(&f)
	if got, want := summaryOf(newMachine(t).Next(f)), "Failed held allocatable_verify VerifyFailed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
