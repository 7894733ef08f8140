package operation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// After an upgrade a node offers as much as before: as many shares, or as many cards where the new version makes fewer shares of
// each. A baseline that was handed on with a cordon says so, and what a person can do when less is right.
func TestWhatANodeLacksAgainstItsBaseline(t *testing.T) {
	const shares = "enflame.com/shared-gcu"
	makes := func(n int64) func(*Facts) {
		return func(f *Facts) {
			i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })
			f.Members[i].Shares = n
		}
	}
	offers := func(n int64) func(*Facts) { return func(f *Facts) { f.Node.Allocatable[shares] = n } }
	old := func(f *Facts) { pod(f, upgradeplan.TargetDevicePlugin).Revision = "v0" }
	tookOver := func(f *Facts) { f.Operation.CordonedBy = "earlier" }
	gone := func(f *Facts) {
		f.Members = slices.DeleteFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })
	}
	const handedOn = "; it was so before operation earlier failed on the node: if less is right now, kubectl gcu task skip n1 allocatable_verify, or kubectl gcu abort n1"
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"as many shares", []func(*Facts){offers(48)}, ""},
		{"fewer shares", []func(*Facts){offers(47)}, "47 of " + shares + " are allocatable, 48 are needed"},
		{"fewer shares of as many cards", []func(*Facts){makes(6), offers(32)}, "32 of " + shares + " are allocatable, 48 are needed"},
		{"fewer shares are wanted", []func(*Facts){makes(4), offers(32)}, ""},
		{"of fewer cards", []func(*Facts){makes(4), offers(28)}, "28 of " + shares + " are allocatable, 32 are needed"},
		{"the plugin that runs makes more", []func(*Facts){makes(4), offers(32), old}, "32 of " + shares + " are allocatable, 48 are needed"},
		{"more shares are wanted", []func(*Facts){makes(8), offers(48)}, ""},
		{"the number is from before an earlier operation", []func(*Facts){offers(47), tookOver}, "47 of " + shares + " are allocatable, 48 are needed" + handedOn},
		{"its plugin is gone", []func(*Facts){gone, tookOver}, "0 of " + shares + " are allocatable, 48 are needed; no gr has a device plugin there" + handedOn},
		{"its plugin is not there yet", []func(*Facts){makes(6), func(f *Facts) {
			i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })
			f.Members[i].Pod = nil
		}}, "0 of " + shares + " are allocatable, 48 are needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "allocatable_verify", toolkitOnly...)
			before := f.Operation.Before
			before.Devices, before.Allocatable, f.Node.Allocatable = 8, map[string]int64{shares: 48}, map[string]int64{}
			for _, change := range tt.with {
				change(&f)
			}
			if got := allocatableLacks(&f, upgradeplan.Task{Host: "n1", Target: upgradeplan.TargetAllocatable, Action: upgradeplan.ActionVerify}); got != tt.want {
				t.Errorf("it lacks %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCardsAreCountedAgainstABaselineThatIsHandedOn(t *testing.T) {
	f := reach(t, "driver_verify", everything...)
	f.Operation.Before.Devices, f.Operation.CordonedBy = 8, "earlier"
	f.Operation.Before.DriverVersion = "v1"
	f.Host.DriverVersion, f.Host.Devices = "v2", ptr.To(int32(7))
	task := upgradeplan.Task{Host: "n1", Target: upgradeplan.TargetDriver, Action: upgradeplan.ActionVerify}
	f.Host.Results = append(f.Host.Results, topsv1.HostTaskResult{Operation: "op", Task: task.String(), Attempt: 99, State: topsv1.HostTaskDone})
	lacks := driverLacks(&f, task)
	if !strings.HasPrefix(lacks, "7 cards found, 8 needed; it was so before operation earlier failed on the node") || !strings.HasSuffix(lacks, "kubectl gcu abort n1") {
		t.Error(lacks)
	}
}
