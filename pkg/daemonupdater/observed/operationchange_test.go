package observed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// fleetAt returns the gr "fleet" on node a, with each component at the given revision.
func fleetAt(revisions map[string]string) (*world, rollout.Input) {
	var members []memberAndPods
	for _, component := range []string{"driver", "toolkit", "devicePlugin", "exporter", "unheardOf"} {
		if revision, ok := revisions[component]; ok {
			ds := fixture.ComponentOf(component)
			members = append(members, memberWith(ds, fixture.PodOn(ds, "a", revision)))
		}
	}
	o := worldOf(members, fixture.Node("a"))
	o.Rollout.Namespace, o.Rollout.Name = "gcu-system", "fleet"
	return o, inputFrom(o)
}

func TestAnOperationReplacesAllThatIsOutdatedAndAllThatUsesTheDevice(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": fixture.OldHash, "devicePlugin": fixture.NewHash, "exporter": fixture.OldHash, "unheardOf": fixture.OldHash})
	disk := resource.MustParse("1Gi")
	o.Policy = &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{
		Drain:      &topsv1.DrainPolicy{Scope: topsv1.DrainAll},
		Validation: &topsv1.ValidationPolicy{MinFreeDisk: &disk, DriverVersion: "1.6", SoakSeconds: 5},
	}}
	got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
	if err != nil {
		t.Fatal(err)
	}
	target := func(component, previous string) topsv1.OperationTarget {
		return topsv1.OperationTarget{Component: component, Revision: fixture.NewHash, Previous: previous, Images: []string{"registry.example/" + component + ":2"},
			DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "enflame-" + component, UID: types.UID("uid-enflame-" + component)}}
	}
	want := &topsv1.NodeOperation{
		ID: "op", NodeUID: "uid-a", Rollout: own, Revision: in.Revision, Purpose: topsv1.PurposeUpgrade,
		Targets: []topsv1.OperationTarget{target("driver", fixture.OldHash), target("devicePlugin", ""), target("exporter", fixture.OldHash)},
		Job: []topsv1.JobStage{{"a_node_precheck"}, {"a_driver_prepull", "a_exporter_prepull"}, {"a_node_cordon"}, {"a_node_evict"}, {"a_driver_replace"},
			{"a_driver_verify"}, {"a_devicePlugin_replace"}, {"a_allocatable_verify"}, {"a_exporter_replace"}, {"a_node_soak"}, {"a_node_uncordon"}},
		DriverVersion: "1.6", MinFreeDiskBytes: 1 << 30, Drain: &topsv1.DrainPolicy{Scope: topsv1.DrainAll},
		Deadlines: topsv1.OperationDeadlines{SoakSeconds: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
}

func TestAnOperationIsSeenToFollowAPolicyThatWasEditedSince(t *testing.T) {
	policy := func(spec topsv1.UpgradePolicySpec) *topsv1.UpgradePolicy { return &topsv1.UpgradePolicy{Spec: spec} }
	drain := func(d topsv1.DrainPolicy) *topsv1.UpgradePolicy { return policy(topsv1.UpgradePolicySpec{Drain: &d}) }
	validation := func(v topsv1.ValidationPolicy) *topsv1.UpgradePolicy {
		return policy(topsv1.UpgradePolicySpec{Validation: &v})
	}
	deletes := drain(topsv1.DrainPolicy{EmptyDir: topsv1.DrainDelete})
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for _, tt := range []struct {
		name      string
		was, next *topsv1.UpgradePolicy
		want      bool
	}{
		{"no policy", nil, nil, false},
		{"a policy that says nothing about operations", nil, policy(topsv1.UpgradePolicySpec{ControlPlane: topsv1.ControlPlaneLast}), false},
		{"the same drain", deletes, deletes.DeepCopy(), false},
		{"what a drain may delete", deletes, drain(topsv1.DrainPolicy{EmptyDir: topsv1.DrainBlock}), true},
		{"which pods it leaves alone", deletes, drain(topsv1.DrainPolicy{EmptyDir: topsv1.DrainDelete, PodSelector: selector}), true},
		{"the policy was removed", deletes, nil, true},
		{"the version of the driver", nil, validation(topsv1.ValidationPolicy{DriverVersion: "1.6"}), true},
		{"the free disk space", nil, validation(topsv1.ValidationPolicy{MinFreeDisk: ptr.To(resource.MustParse("1Gi"))}), true},
		{"a deadline", nil, policy(topsv1.UpgradePolicySpec{ProgressDeadlineSeconds: ptr.To[int32](60)}), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fleetAt(map[string]string{"driver": fixture.OldHash})
			o.Policy = tt.was
			op, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
			if err != nil {
				t.Fatal(err)
			}
			o.Policy = tt.next
			SetNode(o.State, "a", fixture.Node("a"), &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}, nil)
			n := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
			if n.Operation == nil || n.Operation.OldPolicy != tt.want {
				t.Errorf("job %+v, want OldPolicy %t", n.Operation, tt.want)
			}
		})
	}
}

// seenAgain is an operation that a node with the given pins gets under a policy that names the version of the driver, and as what
// it is read in the next pass, under the next policy.
func seenAgain(t *testing.T, o *world, in *rollout.Input, pins map[string]string, next topsv1.ValidationPolicy) (*topsv1.NodeOperation, *rollout.Operation) {
	t.Helper()
	o.Policy = &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Validation: &topsv1.ValidationPolicy{DriverVersion: "1.6"}}}
	node := *o.fleet.Node("a")
	node.Pods = slices.Clone(node.Pods)
	for i := range node.Pods {
		node.Pods[i].Pin = pins[o.Members[node.Pods[i].Member].Component()]
	}
	op, err := o.NewOperation(in, testBook, &node, "op")
	if err != nil {
		t.Fatal(err)
	}
	o.Policy = &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Validation: &next}}
	o.Upgrades["a"] = &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}
	n := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
	return op, n.Operation
}

// A bad new driver that comes to a node with an earlier plugin would quarantine the node, and not be verified.
func TestAnOperationIsARollbackIfADriverOrToolkitGoesBack(t *testing.T) {
	type fleet map[string]string
	const was, newest = fixture.OldHash, fixture.NewHash
	for _, tt := range []struct {
		name            string
		revisions, pins fleet
		held            bool
		purpose         topsv1.OperationPurpose
		driver          string
	}{
		{"the driver", fleet{"driver": newest, "devicePlugin": newest}, fleet{"driver": was}, false, topsv1.PurposeRollback, ""},
		{"the toolkit", fleet{"driver": newest, "toolkit": newest}, fleet{"toolkit": was}, false, topsv1.PurposeRollback, ""},
		{"the driver, and the toolkit is new", fleet{"driver": newest, "toolkit": was}, fleet{"driver": was}, false, topsv1.PurposeRollback, ""},
		{"the driver is kept on a node that is held", fleet{"driver": was, "toolkit": newest}, fleet{"driver": was}, true, topsv1.PurposeRollback, ""},
		{"the driver is kept there, and the toolkit is new", fleet{"driver": was, "toolkit": was}, fleet{"driver": was}, true, topsv1.PurposeUpgrade, ""},
		{"the toolkit is kept there, and the driver is new", fleet{"driver": was, "toolkit": was}, fleet{"toolkit": was}, true, topsv1.PurposeUpgrade, "1.6"},
		{"the toolkit is kept there, and the driver was not verified", fleet{"driver": newest, "toolkit": was}, fleet{"toolkit": was}, true, topsv1.PurposeRollback, ""},
		{"the plugin is kept, and the driver is new", fleet{"driver": was, "devicePlugin": was}, fleet{"devicePlugin": was}, false, topsv1.PurposeUpgrade, "1.6"},
		{"the plugin goes back, and the driver is new", fleet{"driver": was, "devicePlugin": newest}, fleet{"devicePlugin": was}, false, topsv1.PurposeUpgrade, "1.6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fleetAt(tt.revisions)
			if n := o.fleet.Node("a"); tt.held {
				n.Operation = &rollout.Operation{ID: "before", Ours: true, Granted: true, KeptCordoned: true}
				n.Pods[0].Unverified = true
			}
			op, seen := seenAgain(t, o, &in, tt.pins, topsv1.ValidationPolicy{DriverVersion: "1.6"})
			if op.Purpose != tt.purpose || op.DriverVersion != tt.driver {
				t.Errorf("purpose %s, driver version %q; want %s, %q", op.Purpose, op.DriverVersion, tt.purpose, tt.driver)
			}
			if seen.OldPolicy {
				t.Error("it is made again because of the policy")
			}
		})
	}
}

// One that is seen to follow another policy is made again in the next pass, and so for ever: the node waits.
func TestAnOperationOfANodeWithAnEarlierRevisionIsNotMadeAgain(t *testing.T) {
	for _, tt := range []struct {
		name            string
		revisions, pins map[string]string
		next            topsv1.ValidationPolicy
		want            bool
	}{
		{"a driver goes back", map[string]string{"driver": fixture.NewHash, "devicePlugin": fixture.NewHash}, map[string]string{"driver": fixture.OldHash},
			topsv1.ValidationPolicy{DriverVersion: "1.6"}, false},
		{"the policy names another newest driver since", map[string]string{"driver": fixture.NewHash}, map[string]string{"driver": fixture.OldHash},
			topsv1.ValidationPolicy{DriverVersion: "1.7"}, false},
		{"the policy soaks since", map[string]string{"driver": fixture.NewHash}, map[string]string{"driver": fixture.OldHash},
			topsv1.ValidationPolicy{DriverVersion: "1.6", SoakSeconds: 5}, true},
		{"a driver comes to a plugin that is kept", map[string]string{"driver": fixture.OldHash, "devicePlugin": fixture.OldHash}, map[string]string{"devicePlugin": fixture.OldHash},
			topsv1.ValidationPolicy{DriverVersion: "1.6"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fleetAt(tt.revisions)
			if op, seen := seenAgain(t, o, &in, tt.pins, tt.next); seen == nil || seen.OldPolicy != tt.want {
				t.Errorf("operation %+v is read as %+v, want OldPolicy %t", op, seen, tt.want)
			}
		})
	}
}

func TestANodeThatIsHeldIsVerifiedThoughItIsAtItsTargets(t *testing.T) {
	for _, tt := range []struct {
		revisions map[string]string
		verified  bool
	}{
		{map[string]string{"driver": fixture.NewHash, "devicePlugin": fixture.NewHash}, true},
		{map[string]string{"devicePlugin": fixture.NewHash}, false},
	} {
		o, in := fleetAt(tt.revisions)
		n := o.fleet.Node("a")
		n.Operation = &rollout.Operation{ID: "before", Ours: true, Granted: true, KeptCordoned: true}
		got, err := o.NewOperation(&in, testBook, n, "op")
		if err != nil || len(got.Targets) == 0 {
			t.Fatalf("operation %+v, %v: an operation is needed to give the node back (invariant S3)", got, err)
		}
		if verified := slices.ContainsFunc(got.Job, func(s topsv1.JobStage) bool { return slices.Contains(s, "a_driver_verify") }); verified != tt.verified {
			t.Errorf("job %v, want the driver verified: %t (invariant S10)", got.Job, tt.verified)
		}
	}
}

// Somebody deleted the NodeUpgrade when the driver had been replaced under the slot: nothing shows any more that it was not verified.
func TestAnOperationWhoseNodeUpgradeWasDeletedVerifiesTheHeavyMembersOfItsSlotAgain(t *testing.T) {
	slot := rollout.Slot{Node: "a", Operation: "op", Members: []string{"kube-system/enflame-driver", "kube-system/enflame-exporter"}}
	for _, tt := range []struct {
		name     string
		change   func(*rollout.Slot)
		verified bool
	}{
		{"the slot names it", func(*rollout.Slot) {}, true},
		{"the slot names another one", func(s *rollout.Slot) { s.Operation = "another" }, false},
		{"the slot is of another node", func(s *rollout.Slot) { s.Node = "b" }, false},
		{"the driver was not to be replaced", func(s *rollout.Slot) { s.Members = s.Members[1:] }, false},
	} {
		o, in := fleetAt(map[string]string{"driver": fixture.NewHash, "exporter": fixture.NewHash})
		of := slot
		tt.change(&of)
		in.Ledger.Slots = []rollout.Slot{of}
		got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
		if err != nil {
			t.Fatal(err)
		}
		if verified := slices.ContainsFunc(got.Job, func(s topsv1.JobStage) bool { return slices.Contains(s, "a_driver_verify") }); verified != tt.verified {
			t.Errorf("%s: job %v, want the driver verified: %t", tt.name, got.Job, tt.verified)
		}
	}
}

func TestAnOperationOfTheLedgerThatHasNothingToReplaceIsMadeToEnd(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": fixture.NewHash, "exporter": fixture.NewHash})
	got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
	want := []topsv1.JobStage{{"a_exporter_replace"}}
	if err != nil || cmp.Diff(want, got.Job) != "" || len(got.Targets) != 1 {
		t.Errorf("operation %+v, %v: want one that finds its work done, for the API server takes none without tasks", got, err)
	}
}

func TestAnOperationOfARollbackIsMarked(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": fixture.OldHash})
	o.Rollout.Status.Rollback = &topsv1.RolloutRollback{From: "bad", RejectedRevision: "fleet-2"}
	fixture.Annotate(o.Members[0].DaemonSet, topsv1.AnnotationRejectedRevision, "fleet-2")
	if got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op"); err != nil || got.Purpose != topsv1.PurposeRollback {
		t.Errorf("purpose is %v, %v", got, err)
	}
	op, seen := seenAgain(t, o, &in, nil, topsv1.ValidationPolicy{DriverVersion: "1.6"})
	if op.Purpose != topsv1.PurposeRollback || op.DriverVersion != "" {
		t.Errorf("purpose %s, driver version %q: the policy names that of the rejected revision", op.Purpose, op.DriverVersion)
	}
	if seen.OldPolicy {
		t.Error("it is made again because of the policy")
	}
}

func TestNextOperation(t *testing.T) {
	const nothing, amend, makeNew = "nothing", "another spec", "a new operation"
	askedFor := func(id, rollout string, granted bool) *topsv1.NodeOperation {
		op := operating(id, rollout)
		op.Granted = granted
		return op
	}
	grant := &rollout.OperationChange{Node: "a", Operation: "x", Grant: true}
	abort := &rollout.OperationChange{Node: "a", Operation: "x", Grant: true, Abort: true}
	abortAtWork := &rollout.OperationChange{Node: "a", Operation: "x", Grant: true, Abort: true, AtWork: true}
	prepare := &rollout.OperationChange{Node: "a", Operation: "x"}
	replace := &rollout.OperationChange{Node: "a", Operation: "x", Instead: "y"}
	withdrawn := askedFor("x", own, false)
	withdrawn.Abort = true
	theirs := shown("y", topsv1.OperationRunning)
	theirs.Rollout = "gcu-system/other"
	held := shown("x", topsv1.OperationFailed)
	held.Held = true
	theirsHeld := shown("y", topsv1.OperationFailed)
	theirsHeld.Rollout, theirsHeld.Granted, theirsHeld.Held = "gcu-system/other", true, true
	unproven := shown("x", topsv1.OperationRunning)
	unproven.Granted, unproven.Touched, unproven.Tasks = true, true, []topsv1.OperationTask{{Name: "a_driver_replace", State: topsv1.OperationTaskRunning, Pod: &topsv1.NamedPod{}}}
	ungranted := unproven.DeepCopy() // by an older CRD
	ungranted.Granted = false
	tests := []struct {
		name    string
		asked   *topsv1.NodeOperation
		shown   *topsv1.OperationStatus
		history []topsv1.OperationRecord
		order   *rollout.OperationChange
		want    string
	}{
		{name: "one that is not there is made", order: grant, want: makeNew},
		{name: "one that is prepared is granted", asked: askedFor("x", own, false), order: grant, want: amend},
		{name: "one that is granted is left", asked: askedFor("x", own, true), order: grant, want: nothing},
		{name: "one that was aborted before is not granted, which a stale cache does not show", asked: withdrawn, order: grant, want: nothing},
		{name: "one that has ended is never granted", asked: askedFor("y", own, false), order: grant,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}, want: nothing},
		{name: "one that has ended is never made again", order: grant, history: []topsv1.OperationRecord{ended("x", topsv1.OperationAborted, "")}, want: nothing},
		{name: "one that runs is aborted", asked: askedFor("x", own, true), order: abort, want: amend},
		{name: "one that holds its node is aborted", asked: askedFor("x", own, true), shown: held, order: abort,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, want: amend},
		{name: "one that was stale at work is not aborted once it holds its node", asked: askedFor("x", own, true), shown: held, order: abortAtWork,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, want: nothing},
		{name: "one that is stale at work is aborted", asked: askedFor("x", own, true), order: abortAtWork, want: amend},
		{name: "but not once it has begun to replace the driver", asked: askedFor("x", own, true), shown: unproven, order: abortAtWork, want: nothing},
		{name: "nor if its record lost the grant", asked: askedFor("x", own, true), shown: ungranted, order: abortAtWork, want: nothing},
		{name: "which an abort for another reason does not wait for", asked: askedFor("x", own, true), shown: unproven, order: abort, want: amend},
		{name: "one that was taken away is not made again to be aborted", shown: shown("x", topsv1.OperationRunning), order: abort, want: nothing},
		{name: "so is the next one of ours, which is not granted yet", asked: askedFor("y", own, false), shown: held, order: abort,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, want: amend},
		{name: "not that of another group", asked: askedFor("y", "gcu-system/other", false), shown: held, order: abort,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, want: nothing},
		{name: "nor that which replaces one that runs", asked: askedFor("y", own, false), shown: shown("x", topsv1.OperationRunning), order: abort, want: nothing},
		{name: "one that is not there is made to be aborted, so that it has ended", order: abort, want: makeNew},
		{name: "another group is at work", asked: askedFor("y", "gcu-system/other", false), order: grant, want: nothing},
		{name: "that of another group is replaced if the order says so", asked: askedFor("y", "gcu-system/other", false), order: replace, want: makeNew},
		{name: "not when it was granted meanwhile", asked: askedFor("y", "gcu-system/other", true), order: replace, want: nothing},
		{name: "nor when it was granted, failed and holds the node", asked: askedFor("y", "gcu-system/other", true), shown: theirsHeld,
			history: []topsv1.OperationRecord{ended("y", topsv1.OperationFailed, "")}, order: replace, want: nothing},
		{name: "nor when it is another one of that group", asked: askedFor("z", "gcu-system/other", false), order: replace, want: nothing},
		{name: "nor when it is replaced already", asked: askedFor("z", own, false), shown: theirs, order: replace, want: nothing},
		{name: "one that another group replaced is not made again", asked: askedFor("y", "gcu-system/other", false), shown: shown("x", topsv1.OperationRunning), order: grant, want: nothing},
		{name: "another of ours is granted", asked: askedFor("y", own, true), order: grant, want: nothing},
		{name: "another of ours is not granted", asked: askedFor("y", own, false), order: grant, want: makeNew},
		{name: "another of ours is there that the cache did not show", asked: askedFor("y", own, false), order: prepare, want: nothing},
		{name: "another of ours is stale", asked: askedFor("y", own, false), order: replace, want: makeNew},
		{name: "another of ours has ended", asked: askedFor("y", own, true), history: []topsv1.OperationRecord{ended("y", topsv1.OperationAborted, "")}, order: prepare, want: makeNew},
		{name: "another of ours holds the node", asked: askedFor("x", own, true), shown: held,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, order: &rollout.OperationChange{Node: "a", Operation: "z", Grant: true}, want: makeNew},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: tt.asked}}
			upgrade.Status.Operation, upgrade.Status.History = tt.shown, tt.history
			next, isNew := NextOperation(upgrade, tt.order, own)
			got := nothing
			if isNew {
				got = makeNew
			} else if next != nil {
				got = amend
			}
			if got != tt.want {
				t.Fatalf("it needs %v, want %v", got, tt.want)
			}
			if got == amend && (next.ID != tt.asked.ID || next.Abort != tt.order.Abort || !tt.order.Abort && !next.Granted) {
				t.Errorf("it becomes %+v", next)
			}
		})
	}
}

func TestTheOperationOfAPinnedNodeBringsTheRevisionBefore(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": fixture.NewHash, "devicePlugin": fixture.NewHash})
	o.Members[0].Revisions[0].Data.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"driver","image":"registry.example/driver:1"}]}}}}`)
	o.Policy = &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Validation: &topsv1.ValidationPolicy{DriverVersion: "1.6"}}}
	node := *o.fleet.Node("a")
	node.Pods = slices.Clone(node.Pods)
	node.Pods[0].Pin = fixture.OldHash
	got, err := o.NewOperation(&in, testBook, &node, "op")
	if err != nil {
		t.Fatal(err)
	}
	driver, plugin := got.Targets[0], got.Targets[1]
	if driver.Revision != fixture.OldHash || driver.KeptFrom != fixture.NewHash || driver.Previous != fixture.NewHash || !slices.Equal(driver.Images, []string{"registry.example/driver:1"}) {
		t.Errorf("the target of the driver is %+v", driver)
	}
	if plugin.Revision != fixture.NewHash || plugin.KeptFrom != "" {
		t.Errorf("the target of the plugin, which is replaced along with it, is %+v", plugin)
	}
	if got.Purpose != topsv1.PurposeRollback || got.DriverVersion != "" {
		t.Errorf("purpose %s, driver version %q: the policy names that of the newest revision", got.Purpose, got.DriverVersion)
	}
	job := rollout.Operation{}
	upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: got}}
	if j, _ := operationOf(upgrade, own); j != nil {
		job = *j
	}
	if job.Targets["kube-system/enflame-driver"] != fixture.OldHash {
		t.Errorf("the targets of the job are %v", job.Targets)
	}
	want := []rollout.Target{{Member: "kube-system/enflame-driver", Revision: fixture.NewHash}}
	if diff := cmp.Diff(want, endTargetsOf(changed(got.Targets))); diff != "" {
		t.Errorf("what its end is about (-want +got):\n%s", diff)
	}
}
