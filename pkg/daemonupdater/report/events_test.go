package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// stored returns a status with the given status and reason of the Accepted and Progressing
// conditions, and these skipped nodes.
func stored(accepted, acceptedReason, progressing, progressingReason string, skipped ...string) *topsv1.DaemonRolloutStatus {
	s := &topsv1.DaemonRolloutStatus{SkippedNodes: int32(len(skipped)), Conditions: []metav1.Condition{
		{Type: topsv1.RolloutAccepted, Status: metav1.ConditionStatus(accepted), Reason: acceptedReason, Message: "accepted: " + acceptedReason},
		{Type: topsv1.RolloutProgressing, Status: metav1.ConditionStatus(progressing), Reason: progressingReason, Message: "progress: " + progressingReason},
	}}
	for _, name := range skipped {
		s.Skipped = append(s.Skipped, topsv1.NodeNote{Node: name})
	}
	return s
}

func rollingOut(skipped ...string) *topsv1.DaemonRolloutStatus {
	return stored("True", "SettingsAccepted", "True", "RollingOut", skipped...)
}

func standing(reason string) *topsv1.DaemonRolloutStatus {
	return stored("True", "SettingsAccepted", "False", reason)
}

func refused(reason string) *topsv1.DaemonRolloutStatus {
	return stored("False", reason, "False", reason)
}

// at sets the revision of a status.
func at(revision string, s *topsv1.DaemonRolloutStatus) *topsv1.DaemonRolloutStatus {
	s.Revision = revision
	return s
}

// failing returns the status of a rollout on which these nodes failed the given time ago.
func failing(ago time.Duration, nodes ...string) *topsv1.DaemonRolloutStatus {
	s := rollingOut()
	for _, name := range nodes {
		s.Failed = append(s.Failed, topsv1.NodeNote{Node: name, Message: name + " crash-loops", Since: metav1.NewTime(fixture.Epoch.Add(-ago))})
	}
	return s
}

func numbered(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	return names
}

func TestEventsOfARollout(t *testing.T) {
	worded := rollingOut()
	worded.Conditions[1].Message = "2 of 3 nodes updated"
	capped := rollingOut(numbered(1, 21)...) // n01 to n20, and two more not listed
	capped.SkippedNodes = 22
	shifted := rollingOut(numbered(0, 20)...) // n00 is offline too, so n20 is not listed
	shifted.SkippedNodes = 23
	twenty, other20 := rollingOut(numbered(0, 20)...), rollingOut(numbered(1, 21)...)
	exchanged := rollingOut(numbered(2, 22)...)
	exchanged.SkippedNodes = 22
	crowd := rollingOut(numbered(0, 20)...)
	crowd.SkippedNodes = 25
	none := &topsv1.DaemonRolloutStatus{}
	tests := []struct {
		name          string
		before, after *topsv1.DaemonRolloutStatus
		want          []string
	}{
		{"nothing when nothing changes", rollingOut("a"), rollingOut("a"), nil},
		{"nothing when only the message changes", rollingOut(), worded, nil},
		{"the first state of a new rollout", none, rollingOut(), []string{"Normal RollingOut: progress: RollingOut"}},
		{"completion", rollingOut(), standing("Complete"), []string{"Normal Complete: progress: Complete"}},
		{"a reason that changes under the same status", standing("Complete"), standing("CompleteExceptOffline"), []string{"Normal CompleteExceptOffline: progress: CompleteExceptOffline"}},
		{"a halt is a warning", rollingOut(), standing("Halted"), []string{"Warning Halted: progress: Halted"}},
		{"failed nodes are a warning", rollingOut(), standing("NodesFailed"), []string{"Warning NodesFailed: progress: NodesFailed"}},
		{"a pause", rollingOut(), standing("Paused"), []string{"Normal Paused: progress: Paused"}},
		{"wrong settings are one warning, not two", rollingOut(), refused("InvalidPaused"), []string{"Warning InvalidPaused: accepted: InvalidPaused"}},
		{"settings wrong in another way are another warning", refused("InvalidPaused"), refused("InvalidMaxUnavailable"), []string{"Warning InvalidMaxUnavailable: accepted: InvalidMaxUnavailable"}},
		{"wrong settings of a new rollout", none, refused("InvalidPaused"), []string{"Warning InvalidPaused: accepted: InvalidPaused"}},
		{"settings put right are told by what happens then", refused("InvalidPaused"), rollingOut(), []string{"Normal RollingOut: progress: RollingOut"}},
		{"nothing about a revision that is pending", rollingOut(), standing("RevisionPending"), nil},
		{"nothing about settings that disagree for a moment", rollingOut(), standing("SettingsDisagree"), nil},
		{"nothing about a new rollout that waits for its revision", none, standing("RevisionPending"), nil},
		{"nothing when a revision is pending no more and is the same", standing("RevisionPending"), rollingOut(), nil},
		{"what happens at the revision that was pending", at("r1", standing("RevisionPending")), at("r2", rollingOut()), []string{"Normal RollingOut: progress: RollingOut"}},
		{"nothing when settings agree again", standing("SettingsDisagree"), rollingOut(), nil},
		{"wrong settings after a revision that was pending", standing("RevisionPending"), refused("InvalidPaused"), []string{"Warning InvalidPaused: accepted: InvalidPaused"}},
		{"nothing about a pod that is unavailable at the target", standing("Complete"), standing("Unavailable"), nil},
		{"nothing about a pod that is available again", standing("Unavailable"), standing("Complete"), nil},
		{"nothing about an unavailable pod at a new revision", at("r1", rollingOut()), at("r2", standing("Unavailable")), nil},
		{"a new revision after an unavailable pod", at("r1", standing("Unavailable")), at("r2", rollingOut()), []string{"Normal RollingOut: progress: RollingOut"}},
		{"nothing about a global task that is awaited", at("r1", standing("Complete")), at("r2", standing("AwaitingGlobalTask")), nil},
		{"what happens after a global task", standing("AwaitingGlobalTask"), rollingOut(), []string{"Normal RollingOut: progress: RollingOut"}},
		{"a used up budget is about the rollout", rollingOut(), standing("BudgetExhausted"), []string{"Normal BudgetExhausted: progress: BudgetExhausted"}},
		{"a window that closes", rollingOut(), standing("OutsideMaintenanceWindow"), []string{"Normal OutsideMaintenanceWindow: progress: OutsideMaintenanceWindow"}},
		{"a policy that is missing", rollingOut(), refused("UpgradePolicyNotFound"), []string{"Warning UpgradePolicyNotFound: accepted: UpgradePolicyNotFound"}},
		{"skipped nodes beside an unavailable pod", standing("Unavailable"), rollingOut("a"),
			[]string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: a"}},
		{"a node that fails", failing(0, "a"), failing(0, "a", "b"), []string{"Warning NodeFailed: b failed: b crash-loops"}},
		{"many nodes that fail in one event", rollingOut(), failing(0, numbered(0, 7)...),
			[]string{"Warning NodeFailed: n00, n01, n02, n03, n04 and 2 more failed: n00 crash-loops"}},
		{"a node that fails again", failing(time.Hour, "a"), failing(0, "a"), []string{"Warning NodeFailed: a failed: a crash-loops"}},
		{"nothing when a failed node heals", failing(0, "a"), rollingOut(), nil},
		{"a node that is skipped", rollingOut("a"), rollingOut("a", "b"), []string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: b"}},
		{"many nodes that are skipped in one event", rollingOut(), rollingOut(numbered(0, 7)...),
			[]string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: n00, n01, n02, n03, n04 and 2 more"}},
		{"a node that is back", rollingOut("a", "b"), rollingOut("b"), []string{"Normal NodesReturned: no longer skipped: a"}},
		{"of more than are listed only how many, for who fell off the list is not back", capped, shifted,
			[]string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: 23 nodes"}},
		{"of more than are listed how many are back", crowd, capped, []string{"Normal NodesReturned: no longer skipped: 3 nodes"}},
		{"nothing when as many of more than are listed are others", capped, exchanged, nil},
		{"more than are listed now", other20, capped, []string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: 22 nodes"}},
		{"no more than are listed now", capped, twenty, []string{"Normal NodesReturned: no longer skipped: 2 nodes"}},
		{"as many as are listed have names", twenty, other20,
			[]string{"Normal NodesSkipped: offline and skipped; will be upgraded once Ready: n20", "Normal NodesReturned: no longer skipped: n00"}},
		{"progress before nodes", none, rollingOut("a"),
			[]string{"Normal RollingOut: progress: RollingOut", "Normal NodesSkipped: offline and skipped; will be upgraded once Ready: a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, n := range Events(tt.before, tt.after) {
				got = append(got, n.Type+" "+n.Reason+": "+n.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if again := Events(tt.after, tt.after); len(again) != 0 {
				t.Errorf("told twice: %v", again)
			}
		})
	}
}

func TestEventsAreAboutWhatTheUserAnnotated(t *testing.T) {
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want runtime.Object
	}{
		{"the DaemonSet of a group of one", fixture.DaemonSet("driver"), &appsv1.DaemonSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", UID: "uid-driver"}}},
		{"the gr of its DaemonSets", fixture.OfGcuResource(fixture.DaemonSet("driver")), &topsv1.GcuResource{
			TypeMeta:   metav1.TypeMeta{APIVersion: "topsops.enflame.com/v1", Kind: "GcuResource"},
			ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-fleet"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Regarding(worldOf([]memberAndPods{memberWith(tt.ds)}).State)); diff != "" {
				t.Errorf("Target (-want +got):\n%s", diff)
			}
		})
	}
}
