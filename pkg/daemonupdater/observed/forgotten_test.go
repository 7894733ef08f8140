package observed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
)

// An operation that replaced the driver failed, and somebody deleted the NodeUpgrade. The next one is for the toolkit; once its node is
// started, the ledger does not show the failure any more.
func TestAnOperationVerifiesTheDriverWhoseFailureOnlyTheLedgerShows(t *testing.T) {
	driver := topsv1.RevisionTarget{DaemonSet: "kube-system/enflame-driver", Hash: fixture.NewHash}
	for _, tt := range []struct {
		name     string
		reason   rollout.Reason
		strategy daemonset.Strategy
		history  []topsv1.OperationRecord
		limited  bool
		verified bool
	}{
		{"under OTA, where nobody requested the driver", rollout.ReasonOperationFailed, daemonset.OTA, nil, false, true},
		{"without OTA", rollout.ReasonOperationFailed, daemonset.AdvancedRollingUpdate, nil, false, true},
		{"a pod failed, which recovers by itself", rollout.ReasonCrashLooping, daemonset.OTA, nil, false, false},
		{"it was verified since", rollout.ReasonOperationFailed, daemonset.OTA, []topsv1.OperationRecord{of("driver", touched(topsv1.OperationDone, ""))}, false, false},
		{"its history shows it, and it waits for a request", rollout.ReasonOperationFailed, daemonset.OTA, []topsv1.OperationRecord{of("driver", touched(topsv1.OperationFailed, operation.ReasonVerifyFailed))}, false, false},
		{"the upgrade is limited to the toolkit", rollout.ReasonOperationFailed, daemonset.OTA, nil, true, false}, // the prepared operation would be stale
	} {
		o, in := fleetAt(map[string]string{"driver": fixture.NewHash, "toolkit": fixture.OldHash})
		in.Settings.Strategy = tt.strategy
		o.Rollout.Status.Failed = []topsv1.NodeNote{{Node: "a", Reason: string(tt.reason), Targets: []topsv1.RevisionTarget{driver}}}
		in.Members[0].LeftOut = tt.limited
		upgrade := withRuntime("enflame", tt.history...)
		o.Upgrades["a"] = upgrade
		node := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
		toolkit := &node.Pods[1]
		toolkit.Request = &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: toolkit.UID}}
		got, err := o.NewOperation(&in, testBook, &node, "op")
		if err != nil {
			t.Fatal(err)
		}
		if verified := verifiesDriver(got); verified != tt.verified {
			t.Errorf("%s: job %v, want the driver verified: %t", tt.name, got.Job, tt.verified)
		}
	}
}

func verifiesDriver(op *topsv1.NodeOperation) bool {
	return slices.ContainsFunc(op.Job, func(s topsv1.JobStage) bool { return slices.Contains(s, "a_driver_verify") })
}

// An operation replaced the driver, and did not verify it. The next one is for the toolkit too.
func TestAnOperationThatFailsIsBlamedOnTheDriverThatWasNotVerifiedBefore(t *testing.T) {
	driver := rollout.Target{Member: "kube-system/enflame-driver", Revision: fixture.NewHash}
	toolkit := rollout.Target{Member: "kube-system/enflame-toolkit", Revision: fixture.NewHash}
	failed := of("driver", touched(topsv1.OperationFailed, operation.ReasonVerifyFailed))
	done := of("driver", touched(topsv1.OperationDone, ""))
	slot := rollout.Slot{Node: "a", Operation: "x", Members: []string{driver.Member, toolkit.Member}}
	for _, tt := range []struct {
		name    string
		upgrade *topsv1.NodeUpgrade
		slots   []rollout.Slot
		blamed  []rollout.Target
	}{
		{"its history shows that", withRuntime("enflame", failed), nil, []rollout.Target{driver, toolkit}},
		{"the NodeUpgrade was deleted, and the operation of the slot is made again", nil, []rollout.Slot{slot}, []rollout.Target{driver, toolkit}},
		{"and the agent has made another NodeUpgrade", withRuntime("enflame"), []rollout.Slot{slot}, []rollout.Target{driver, toolkit}},
		{"it was verified since", withRuntime("enflame", failed, done), []rollout.Slot{slot}, []rollout.Target{toolkit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fleetAt(map[string]string{"driver": fixture.NewHash, "toolkit": fixture.OldHash})
			if tt.upgrade != nil {
				o.Upgrades["a"] = tt.upgrade
			}
			in.Ledger.Slots = tt.slots
			node := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
			op, err := o.NewOperation(&in, testBook, &node, "x")
			if err != nil {
				t.Fatal(err)
			}
			if verifiesDriver(op) != (len(tt.blamed) > 1 || len(tt.slots) > 0) || op.Purpose != topsv1.PurposeUpgrade {
				t.Errorf("job %v, purpose %s", op.Job, op.Purpose)
			}
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}
			upgrade.Status.History = []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, operation.ReasonVerifyFailed)}
			describeOperations(&node, upgrade, own, in.Revision, fixture.Epoch)
			if diff := cmp.Diff(tt.blamed, node.Ended[len(node.Ended)-1].Targets); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
}

// An operation that failed at the driver was to replace what uses the device along with it, and did not get that far. The next driver is to
// blame alone if it fails.
func TestAnOperationThatFailsIsNotBlamedOnWhatTheOneBeforeDidNotReplaceAlong(t *testing.T) {
	before := touched(topsv1.OperationFailed, operation.ReasonVerifyFailed)
	before.Result = topsv1.OperationResult{Undo: []string{"a_driver_replace", "a_devicePlugin_replace", "a_exporter_replace"}}
	o, in := fleetAt(map[string]string{"driver": fixture.OldHash, "devicePlugin": fixture.NewHash, "exporter": fixture.NewHash})
	o.Upgrades["a"] = withRuntime("enflame", before)
	node := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
	op, err := o.NewOperation(&in, testBook, &node, "x")
	if err != nil {
		t.Fatal(err)
	}
	upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}
	upgrade.Status.History = []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, operation.ReasonVerifyFailed)}
	describeOperations(&node, upgrade, own, in.Revision, fixture.Epoch)
	if diff := cmp.Diff([]rollout.Target{{Member: "kube-system/enflame-driver", Revision: fixture.NewHash}}, node.Ended[len(node.Ended)-1].Targets); diff != "" {
		t.Errorf("blamed (-want +got):\n%s", diff)
	}
}

// An operation that brings no new revision only verifies: the driver and the plugin may both be why it fails.
func TestAnOperationThatOnlyVerifiesBlamesAllThatItVerified(t *testing.T) {
	driver := topsv1.OperationTarget{DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver"}, Revision: "r", Previous: "r"}
	plugin := topsv1.OperationTarget{DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "plugin"}, Revision: "p"}
	if got := changed([]topsv1.OperationTarget{driver, plugin}); len(got) != 2 {
		t.Errorf("blames %v", got)
	}
	driver.Previous = "old"
	if got := changed([]topsv1.OperationTarget{driver, plugin}); len(got) != 1 || got[0].DaemonSet.Name != "driver" {
		t.Errorf("with a new driver it blames %v", got)
	}
}
