package observed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
)

const own = "gcu-system/fleet"

func operating(id, rollout string) *topsv1.NodeOperation {
	return &topsv1.NodeOperation{ID: id, Rollout: rollout}
}

func shown(id string, phase topsv1.OperationPhase) *topsv1.OperationStatus {
	return &topsv1.OperationStatus{ID: id, Rollout: own, Phase: phase, Task: "a_driver_replace", Message: "pod x is replaced"}
}

func ended(id string, phase topsv1.OperationPhase, reason string) topsv1.OperationRecord {
	return topsv1.OperationRecord{ID: id, Phase: phase, Reason: reason, Message: "said why", Revision: "r2", EndTime: fixture.Ago(time.Minute)}
}

// hostAt returns the report of an agent that works on the task of the shown operation.
func hostAt(reason string) *topsv1.HostReport {
	return &topsv1.HostReport{Results: []topsv1.HostTaskResult{{Operation: "x", Task: "a_driver_replace", State: topsv1.HostTaskRunning, Reason: reason}}}
}

func TestOperationsBecomeJobs(t *testing.T) {
	grantedOp := operating("x", own)
	grantedOp.Granted = true
	preparedStatus := shown("x", topsv1.OperationRunning)
	now := fixture.Ago(0)
	preparedStatus.PreparedTime = &now
	stalledStatus := shown("x", topsv1.OperationRunning)
	stalledStatus.Reason, stalledStatus.Since = operation.ReasonPrepullFailed, now
	heldStatus := shown("x", topsv1.OperationFailed)
	heldStatus.Held, heldStatus.Granted = true, true
	steppedStatus := shown("x", topsv1.OperationRunning)
	before := fixture.Ago(time.Hour)
	steppedStatus.Granted, steppedStatus.Tasks = true, []topsv1.OperationTask{{EndTime: &before}, {EndTime: &now}, {}}
	tookOver := shown("x", topsv1.OperationRunning)
	tookOver.Granted, tookOver.CordonedBy = true, "old"
	unproven := shown("x", topsv1.OperationRunning)
	unproven.Granted, unproven.Touched, unproven.Tasks = true, true, []topsv1.OperationTask{{Name: "a_driver_replace", State: topsv1.OperationTaskDone}, {Name: "a_driver_verify", State: topsv1.OperationTaskRunning}}
	ungranted := unproven.DeepCopy() // by an older CRD
	ungranted.Granted = false
	proven := unproven.DeepCopy()
	proven.Tasks[1].State = topsv1.OperationTaskDone
	untouched := unproven.DeepCopy()
	untouched.Touched = false
	releasing := shown("old", topsv1.OperationReleasing)
	releasing.Granted = true
	tests := []struct {
		name      string
		asked     *topsv1.NodeOperation
		shown     *topsv1.OperationStatus
		host      *topsv1.HostReport
		history   []topsv1.OperationRecord
		want      *rollout.Operation
		disturbed bool
	}{
		{name: "nothing"},
		{name: "asked for and not begun", asked: operating("x", own),
			want: &rollout.Operation{ID: "x", Ours: true, Message: "operation x is about to start"}},
		{name: "granted and not seen yet disturbs already", asked: grantedOp, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Message: "operation x is about to start"}},
		{name: "prepared, and another one is asked for", asked: operating("y", own), shown: preparedStatus,
			want: &rollout.Operation{ID: "x", Ours: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "prepared", asked: operating("x", own), shown: preparedStatus,
			want: &rollout.Operation{ID: "x", Ours: true, Prepared: true, WaitingSince: now.Time, Message: "a_driver_replace: pod x is replaced"}},
		{name: "not prepared, because something is amiss", asked: operating("x", own), shown: stalledStatus,
			want: &rollout.Operation{ID: "x", Ours: true, Stalled: true, WaitingSince: now.Time, Message: "a_driver_replace: pod x is replaced"}},
		{name: "not prepared, because the node agent cannot do its part", asked: operating("x", own), shown: shown("x", topsv1.OperationRunning),
			host: hostAt("NotRecorded"), want: &rollout.Operation{ID: "x", Ours: true, Stalled: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "being prepared", asked: operating("x", own), shown: shown("x", topsv1.OperationRunning),
			host: hostAt("InProgress"), want: &rollout.Operation{ID: "x", Ours: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "a task has ended, and another after it", asked: grantedOp, shown: steppedStatus, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, LastTaskEnd: now.Time, Message: "a_driver_replace: pod x is replaced"}},
		{name: "it took over the cordon of one that failed", asked: grantedOp, shown: tookOver, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Committed: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "its driver is replaced and not verified", asked: grantedOp, shown: unproven, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Committed: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "its driver is replaced and not verified, and its record lost the grant", asked: grantedOp, shown: ungranted, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Committed: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "its driver is replaced and not verified, and both lost the grant: it disturbs", asked: operating("x", own), shown: ungranted, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Committed: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "another group's that touched the node, and both lost the grant: nothing else is done there", asked: operating("x", "gcu-system/other"), shown: ungranted, disturbed: true,
			want: &rollout.Operation{ID: "x", Granted: true, Committed: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "another group's that took over a cordon and touched nothing yet, and both lost the grant: nothing else is done there", asked: operating("x", "gcu-system/other"),
			shown: &topsv1.OperationStatus{ID: "x", Phase: topsv1.OperationRunning, CordonedBy: "w"}, disturbed: true,
			want: &rollout.Operation{ID: "x", Granted: true, Committed: true}},
		{name: "its driver was replaced, but not by it", asked: grantedOp, shown: untouched, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "its driver is verified", asked: grantedOp, shown: proven, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "another group's", asked: operating("x", "gcu-system/other"),
			want: &rollout.Operation{ID: "x", Message: "operation x is about to start"}},
		{name: "ended", asked: grantedOp, shown: shown("x", topsv1.OperationDone), history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}},
		{name: "ended, as the history says", asked: grantedOp,
			history: []topsv1.OperationRecord{ended("x", topsv1.OperationDone, "")}},
		{name: "ended and held", asked: grantedOp, shown: heldStatus, history: []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}, disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, KeptCordoned: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "the one before is still being wound up", asked: operating("x", own), shown: releasing, disturbed: true,
			want: &rollout.Operation{ID: "old", Ours: true, Granted: true, Message: "a_driver_replace: pod x is replaced"}},
		{name: "the one before, which never touched the node, is not in its way", asked: grantedOp, shown: shown("old", topsv1.OperationRunning), disturbed: true,
			want: &rollout.Operation{ID: "x", Ours: true, Granted: true, Message: "operation x is about to start"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: tt.asked}}
			upgrade.Status.Operation, upgrade.Status.Host, upgrade.Status.History = tt.shown, tt.host, tt.history
			got, disturbed := operationOf(upgrade, own)
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

func TestTheTargetsOfAnEndedOperationAreThoseOfTheSpec(t *testing.T) {
	target := func(name, previous string) topsv1.OperationTarget {
		return topsv1.OperationTarget{DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: name}, Revision: "new", Previous: previous}
	}
	driver := rollout.Target{Member: "kube-system/driver", Revision: "new"}
	plugin := rollout.Target{Member: "kube-system/plugin", Revision: "new"}
	for _, tt := range []struct {
		name    string
		targets []topsv1.OperationTarget
		want    []rollout.Target
		along   []rollout.Target
	}{
		{"those that it changed", []topsv1.OperationTarget{target("driver", "old"), target("plugin", "old")}, []rollout.Target{driver, plugin}, nil},
		{"not those that were replaced along with them", []topsv1.OperationTarget{target("driver", "old"), target("plugin", "")}, []rollout.Target{driver}, []rollout.Target{plugin}},
		{"all if it changed none", []topsv1.OperationTarget{target("driver", ""), target("plugin", "")}, []rollout.Target{driver, plugin}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := operating("x", own)
			op.Targets = tt.targets
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}
			upgrade.Status.History = []topsv1.OperationRecord{ended("w", topsv1.OperationFailed, ""), ended("x", topsv1.OperationFailed, "")}
			var n rollout.Node
			describeOperations(&n, upgrade, own, "r2", fixture.Epoch)
			if diff := cmp.Diff(tt.along, n.Ended[1].Along); diff != "" {
				t.Errorf("replaced along (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, n.Ended[1].Targets); diff != "" || n.Ended[0].Targets != nil {
				t.Errorf("targets of the other %v, of this one (-want +got):\n%s", n.Ended[0].Targets, diff)
			}
		})
	}
}

func TestHowOperationsEnded(t *testing.T) {
	for _, tt := range []struct {
		phase  topsv1.OperationPhase
		reason string
		done   bool
		want   rollout.Reason
	}{
		{topsv1.OperationDone, "Succeeded", true, ""},
		{topsv1.OperationFailed, "CrashLoop", false, rollout.ReasonOperationFailed},
		{topsv1.OperationFailed, "NodeLost", false, rollout.ReasonNodeLost},
		{topsv1.OperationQuarantined, "NodeLost", false, rollout.ReasonQuarantined},
		{topsv1.OperationDeferred, "DrainTimeout", false, ""},
		{topsv1.OperationAborted, "Aborted", false, rollout.ReasonOperationAborted},
		{topsv1.OperationAborted, "TargetChanged", false, ""},
		{topsv1.OperationAborted, "BadOperation", false, rollout.ReasonOperationFailed},
	} {
		record := ended("x", tt.phase, tt.reason)
		if got := endOf(&record); got.Done != tt.done || got.Failure != tt.want || got.Message != tt.reason+": said why" {
			t.Errorf("%s %s: done %t, failure %q, %q, want %t, %q", tt.phase, tt.reason, got.Done, got.Failure, got.Message, tt.done, tt.want)
		}
	}
}

func TestANodeThatWasPutOffIsTriedAgainLater(t *testing.T) {
	var n rollout.Node
	describeOperations(&n, &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{
		History: []topsv1.OperationRecord{ended("x", topsv1.OperationDeferred, "DrainTimeout")}}}, own, "r2", fixture.Epoch)
	if want := fixture.Epoch.Add(4 * time.Minute); !n.Retry.Equal(want) || n.RetryWhy != "will be retried at 2026-01-01T00:04:00Z: DrainTimeout: said why" {
		t.Errorf("retried at %s (%s), want %s", n.Retry, n.RetryWhy, want)
	}
	n = rollout.Node{}
	if describeOperations(&n, &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{
		History: []topsv1.OperationRecord{ended("x", topsv1.OperationDeferred, "DrainTimeout")}}}, own, "r3", fixture.Epoch); !n.Retry.IsZero() {
		t.Errorf("another revision waits until %s as well", n.Retry)
	}
}

func TestAnOperationThatGoesOnHasNotEnded(t *testing.T) {
	at := fixture.Ago(time.Minute)
	for name, tt := range map[string]struct {
		phase topsv1.OperationPhase
		end   *metav1.Time
		ended bool
	}{
		"it is at work again":                     {topsv1.OperationRunning, nil, false},
		"it succeeded and returns its node":       {topsv1.OperationReleasing, nil, false},
		"it was not retried and returns its node": {topsv1.OperationReleasing, &at, true},
		"it keeps its node cordoned":              {topsv1.OperationFailed, &at, true},
	} {
		t.Run(name, func(t *testing.T) {
			op := operating("x", own)
			op.Granted = true
			upgrade := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: op}}
			upgrade.Status.Operation = shown("x", tt.phase)
			upgrade.Status.Operation.EndTime, upgrade.Status.Operation.Granted = tt.end, true
			upgrade.Status.History = []topsv1.OperationRecord{ended("x", topsv1.OperationFailed, "")}
			var n rollout.Node
			describeOperations(&n, upgrade, own, "r2", fixture.Epoch)
			if (len(n.Ended) > 0) != tt.ended {
				t.Errorf("ended %v, want %v", n.Ended, tt.ended)
			}
		})
	}
}
