package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// DescribeTeardown returns the status of a gr that is being deleted.
func DescribeTeardown(obs *state.Observation, down plan.Teardown, now time.Time) topsv1.GcuResourceStatus {
	status := *obs.Resource.Status.DeepCopy()
	status.ObservedGeneration = obs.Resource.Generation
	status.ClusterGCUNodes = obs.GCUNodes()
	status.Phase = topsv1.PhaseDeleting
	status.ResourceStatuses = nil
	running, nodes := 0, state.NewNodeIndex(obs.Nodes, obs.Hosts)
	later := down.Message
	if down.Current != "" {
		later = "waiting until " + down.Current + " is gone"
	}
	for i := range obs.Components {
		c := &obs.Components[i]
		if !slices.Contains(down.Left, c.Name) {
			continue
		}
		rs := topsv1.ResourceStatus{Name: c.Name, Namespace: c.Namespace, OwnResources: ownResources(obs.Resource, c),
			Status: topsv1.PhaseDeleting, Message: later}
		if c.Name == down.Current {
			rs.Message = down.Message
		} else if h := obs.Assess(c, nodes, now); h.Running() {
			rs.Status, running = topsv1.PhaseRunning, running+1
		}
		status.ResourceStatuses = append(status.ResourceStatuses, rs)
	}
	total := max(len(obs.Components), len(down.Left))
	status.ReadyResource = fmt.Sprintf("%d/%d", running, total)
	progress := int32(100)
	if total > 0 {
		progress = int32((total - len(down.Left)) * 100 / total)
	}
	message := cmp.Or(down.Message, "every component is gone")
	status.Conditions = setAction(status.Conditions, topsv1.ActionCondition{
		Action: topsv1.ActionDelete, Status: topsv1.PhaseDeleting, Reason: ReasonDeleting, Message: message, Progress: progress,
	}, now)
	status.Conditions = withSummary(status.Conditions, topsv1.ConditionReconciling, ReasonDeleting, message, now)
	status.StandardConditions = teardownConditions(obs, message, now)
	return status
}

// teardownConditions returns the standard conditions of a gr that is being deleted.
func teardownConditions(obs *state.Observation, message string, now time.Time) []metav1.Condition {
	return setConditions(obs.Resource, now, degradedBy(obs.ReconcileFailure),
		metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonDeleting, Message: message},
		metav1.Condition{Type: ConditionProgressing, Status: metav1.ConditionTrue, Reason: ReasonDeleting, Message: message},
	)
}
