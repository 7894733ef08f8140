package daemonupdater

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// componentOf is a DaemonSet of the gr "fleet" for a component.
func componentOf(component string) *appsv1.DaemonSet {
	ds := ofGcuResource(daemonSet("enflame-" + component))
	ds.Labels[topsv1.LabelComponent] = component
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: component, Image: "registry.example/" + component + ":2"}}
	return ds
}

const own = "gcu-system/fleet"

func operating(id, rollout string) *topsv1.NodeOperation {
	return &topsv1.NodeOperation{ID: id, Rollout: rollout}
}

func shown(id string, phase topsv1.OperationPhase) *topsv1.OperationStatus {
	return &topsv1.OperationStatus{ID: id, Rollout: own, Phase: phase, Task: "a_driver_replace", Message: "pod x is replaced"}
}

func ended(id string, phase topsv1.OperationPhase, reason string) topsv1.OperationRecord {
	return topsv1.OperationRecord{ID: id, Phase: phase, Reason: reason, Message: "said why", Revision: "r2", EndTime: ago(time.Minute)}
}

// hostAt is the report of an agent that is at the task of the operation that is shown.
func hostAt(reason string) *topsv1.HostReport {
	return &topsv1.HostReport{Results: []topsv1.HostTaskResult{{Operation: "x", Task: "a_driver_replace", State: topsv1.HostTaskRunning, Reason: reason}}}
}

func TestWhatIsSeenOfOperations(t *testing.T) {
	grantedOp := operating("x", own)
	grantedOp.Granted = true
	preparedStatus := shown("x", topsv1.OperationRunning)
	now := ago(0)
	preparedStatus.PreparedTime = &now
	stalledStatus := shown("x", topsv1.OperationRunning)
	stalledStatus.Reason = operation.ReasonPrepullFailed
	heldStatus := shown("x", topsv1.OperationFailed)
	heldStatus.Held, heldStatus.Granted = true, true
	releasing := shown("old", topsv1.OperationReleasing)
	releasing.Granted = true
	tests := []struct {
		name      string
		asked     *topsv1.NodeOperation
		shown     *topsv1.OperationStatus
		host      *topsv1.HostReport
		history   []topsv1.OperationRecord
		want      *rollout.Job
		disturbed bool
	}{
		{name: "nothing"},
		{name: "asked for and not begun", asked: operating("x", own),
			want: &rollout.Job{ID: "x", Ours: true, Message: "operation x is about to begin"}},
		{name: "granted and not seen yet disturbs already", asked: grantedOp, disturbed: true,
			want: &rollout.Job{ID: "x", Ours: true, Granted: true, Message: "operation x is about to begin"}},
		{name: "prepared", asked: operating("x", own), shown: preparedStatus,
			want: &rollout.Job{ID: "x", Ours: true, Prepared: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "not prepared, because something is amiss", asked: operating("x", own), shown: stalledStatus,
			want: &rollout.Job{ID: "x", Ours: true, Stalled: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "not prepared, because the node agent cannot do its part", asked: operating("x", own), shown: shown("x", topsv1.OperationRunning),
			host: hostAt("NotRecorded"), want: &rollout.Job{ID: "x", Ours: true, Stalled: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "being prepared", asked: operating("x", own), shown: shown("x", topsv1.OperationRunning),
			host: hostAt("InProgress"), want: &rollout.Job{ID: "x", Ours: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "another group's", asked: operating("x", "gcu-system/other"),
			want: &rollout.Job{ID: "x", Message: "operation x is about to begin"}},
		{name: "ended", asked: grantedOp, shown: shown("x", topsv1.OperationDone), history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}},
		{name: "ended, as the history says", asked: grantedOp,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}},
		{name: "ended and held", asked: grantedOp, shown: heldStatus, history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, disturbed: true,
			want: &rollout.Job{ID: "x", Ours: true, Granted: true, Held: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "the one before is still being wound up", asked: operating("x", own), shown: releasing, disturbed: true,
			want: &rollout.Job{ID: "old", Ours: true, Granted: true, Message: "a_driver_replace: pod x is replaced"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: tt.asked}}
			upgrade.Status.Operation, upgrade.Status.Host, upgrade.Status.History = tt.shown, tt.host, tt.history
			got, disturbed := jobOf(upgrade, own)
			if tt.want != nil {
				tt.want.Targets = map[string]string{}
				if got != nil && got.Targets == nil {
					got.Targets = map[string]string{}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || disturbed != tt.disturbed {
				t.Errorf("disturbed=%t; job (-want +got):\n%s", disturbed, diff)
			}
		})
	}
}

func TestHowOperationsEnded(t *testing.T) {
	for _, tt := range []struct {
		phase  topsv1.OperationPhase
		reason string
		want   rollout.Outcome
	}{
		{topsv1.OperationDone, "Succeeded", rollout.Done},
		{topsv1.OperationFailed, "CrashLoop", rollout.Broken},
		{topsv1.OperationFailed, "NodeLost", rollout.Lost},
		{topsv1.OperationQuarantined, "NodeLost", rollout.Quarantined},
		{topsv1.OperationDeferred, "DrainTimeout", rollout.Dropped},
		{topsv1.OperationAborted, "Aborted", rollout.Stopped},
		{topsv1.OperationAborted, "TargetChanged", rollout.Dropped},
		{topsv1.OperationAborted, "BadOperation", rollout.Broken},
	} {
		record := ended("x", tt.phase, tt.reason)
		if got := endOf(&record); got.Outcome != tt.want || got.Message != tt.reason+": said why" {
			t.Errorf("%s %s is %s %q, want %s", tt.phase, tt.reason, got.Outcome, got.Message, tt.want)
		}
	}
}

func TestANodeThatWasPutOffIsTriedAgainLater(t *testing.T) {
	var n rollout.Node
	describeOperations(&n, &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{
		History: []topsv1.OperationRecord{ended("x", topsv1.OperationDeferred, "DrainTimeout")}}}, own, "r2")
	if want := epoch.Add(4 * time.Minute); !n.Retry.Equal(want) || n.RetryWhy != "tried again at 2026-01-01T00:04:00Z: DrainTimeout: said why" {
		t.Errorf("tried again at %s (%s), want %s", n.Retry, n.RetryWhy, want)
	}
	n = rollout.Node{}
	if describeOperations(&n, &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{
		History: []topsv1.OperationRecord{ended("x", topsv1.OperationDeferred, "DrainTimeout")}}}, own, "r3"); !n.Retry.IsZero() {
		t.Errorf("another revision waits until %s as well", n.Retry)
	}
}

// fleetAt is the gr "fleet" on node a, each component at the revision given.
func fleetAt(revisions map[string]string) (*observation, rollout.Input) {
	var members []memberAndPods
	for _, component := range []string{"driver", "devicePlugin", "exporter", "unheardOf"} {
		if revision, ok := revisions[component]; ok {
			ds := componentOf(component)
			members = append(members, memberWith(ds, podOn(ds, "a", revision)))
		}
	}
	o := observed(members, node("a"))
	o.rollout.Namespace, o.rollout.Name = "gcu-system", "fleet"
	return o, inputFrom(o)
}

func TestAnOperationReplacesAllThatIsOutdatedAndAllThatUsesTheDevice(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": oldHash, "devicePlugin": newHash, "exporter": oldHash, "unheardOf": oldHash})
	disk := resource.MustParse("1Gi")
	o.policy = &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{
		Drain:      &topsv1.DrainPolicy{Scope: topsv1.DrainAll},
		Validation: &topsv1.ValidationPolicy{MinFreeDisk: &disk, DriverVersion: "1.6", SoakSeconds: 5},
	}}
	got, err := operationOf(o, &in, testBook, o.view.fleet.Node("a"), "op")
	if err != nil {
		t.Fatal(err)
	}
	target := func(component, previous string) topsv1.OperationTarget {
		return topsv1.OperationTarget{Component: component, Revision: newHash, Previous: previous, Images: []string{"registry.example/" + component + ":2"},
			DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "enflame-" + component, UID: types.UID("uid-enflame-" + component)}}
	}
	want := &topsv1.NodeOperation{
		ID: "op", NodeUID: "uid-a", Rollout: own, Revision: in.Revision, Purpose: topsv1.PurposeUpgrade,
		Targets: []topsv1.OperationTarget{target("driver", oldHash), target("devicePlugin", ""), target("exporter", oldHash)},
		Job: []topsv1.JobStage{{"a_node_precheck"}, {"a_driver_prepull", "a_exporter_prepull"}, {"a_node_cordon"}, {"a_node_evict"}, {"a_driver_replace"},
			{"a_driver_verify"}, {"a_devicePlugin_replace"}, {"a_allocatable_verify"}, {"a_exporter_replace"}, {"a_node_soak"}, {"a_node_uncordon"}},
		DriverVersion: "1.6", MinFreeDiskBytes: 1 << 30, Drain: &topsv1.DrainPolicy{Scope: topsv1.DrainAll},
		Deadlines: topsv1.OperationDeadlines{SoakSeconds: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsHeldIsVerifiedThoughItIsAtItsTargets(t *testing.T) {
	for _, tt := range []struct {
		revisions map[string]string
		verified  bool
	}{
		{map[string]string{"driver": newHash, "devicePlugin": newHash}, true},
		{map[string]string{"devicePlugin": newHash}, false},
	} {
		o, in := fleetAt(tt.revisions)
		n := o.view.fleet.Node("a")
		n.Job = &rollout.Job{ID: "before", Ours: true, Granted: true, Held: true}
		got, err := operationOf(o, &in, testBook, n, "op")
		if err != nil || len(got.Targets) == 0 {
			t.Fatalf("operation %+v, %v: an operation is needed to give the node back (invariant S3)", got, err)
		}
		if verified := slices.ContainsFunc(got.Job, func(s topsv1.JobStage) bool { return slices.Contains(s, "a_driver_verify") }); verified != tt.verified {
			t.Errorf("job %v, want the driver verified: %t (invariant S10)", got.Job, tt.verified)
		}
	}
}

func TestAnOperationOfTheLedgerThatHasNothingToReplaceIsMadeToEnd(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": newHash, "exporter": newHash})
	got, err := operationOf(o, &in, testBook, o.view.fleet.Node("a"), "op")
	want := []topsv1.JobStage{{"a_exporter_replace"}}
	if err != nil || cmp.Diff(want, got.Job) != "" || len(got.Targets) != 1 {
		t.Errorf("operation %+v, %v: want one that finds its work done, for the API server takes none without tasks", got, err)
	}
}

func TestAnOperationSaysThatItRollsBack(t *testing.T) {
	o, in := fleetAt(map[string]string{"driver": oldHash})
	o.rollout.Status.Rollback = &topsv1.RolloutRollback{From: "bad", To: in.Revision}
	if got, err := operationOf(o, &in, testBook, o.view.fleet.Node("a"), "op"); err != nil || got.Purpose != topsv1.PurposeRollback {
		t.Errorf("purpose is %v, %v", got, err)
	}
}

func TestWhatAnOrderNeeds(t *testing.T) {
	askedFor := func(id, rollout string, granted bool) *topsv1.NodeOperation {
		op := operating(id, rollout)
		op.Granted = granted
		return op
	}
	grant := &rollout.Order{Node: "a", Operation: "x", Grant: true}
	abort := &rollout.Order{Node: "a", Operation: "x", Grant: true, Abort: true}
	held := shown("x", topsv1.OperationFailed)
	held.Held = true
	tests := []struct {
		name    string
		asked   *topsv1.NodeOperation
		shown   *topsv1.OperationStatus
		history []topsv1.OperationRecord
		order   *rollout.Order
		want    verb
	}{
		{name: "one that is not there is made", order: grant, want: makeNew},
		{name: "one that is prepared is granted", asked: askedFor("x", own, false), order: grant, want: amend},
		{name: "one that is granted is left", asked: askedFor("x", own, true), order: grant, want: nothing},
		{name: "one that has ended is never granted", asked: askedFor("y", own, false), order: grant,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}, want: nothing},
		{name: "one that has ended is never made again", order: grant, history: []topsv1.OperationRecord{ended("x", topsv1.OperationAborted, "")}, want: nothing},
		{name: "one that runs is aborted", asked: askedFor("x", own, true), order: abort, want: amend},
		{name: "one that holds its node is aborted", asked: askedFor("x", own, true), shown: held, order: abort,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, want: amend},
		{name: "one that was taken away is not made again to be aborted", shown: shown("x", topsv1.OperationRunning), order: abort, want: nothing},
		{name: "one that is not there is made to be aborted, so that it has ended", order: abort, want: makeNew},
		{name: "another group is at work", asked: askedFor("y", "gcu-system/other", false), order: grant, want: nothing},
		{name: "another of ours is granted", asked: askedFor("y", own, true), order: grant, want: nothing},
		{name: "another of ours is not granted", asked: askedFor("y", own, false), order: grant, want: makeNew},
		{name: "another of ours holds the node", asked: askedFor("x", own, true), shown: held,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, order: &rollout.Order{Node: "a", Operation: "z", Grant: true}, want: makeNew},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: tt.asked}}
			upgrade.Status.Operation, upgrade.Status.History = tt.shown, tt.history
			next, got := ordered(upgrade, tt.order, own)
			if got != tt.want {
				t.Fatalf("it needs %v, want %v", got, tt.want)
			}
			if got == amend && (next.ID != "x" || next.Abort != tt.order.Abort || !tt.order.Abort && !next.Granted) {
				t.Errorf("it becomes %+v", next)
			}
		})
	}
}
