package display

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
)

// State summarizes the state of a gr for people and scripts.
type State string

// States of a gr; a closed list.
const (
	// Done: every component is running, and every reachable node has the newest spec.
	Done State = "Done"
	// Working: it makes progress or retries.
	Working State = "Working"
	// Waiting: it continues when someone follows the advice.
	Waiting State = "Waiting"
	// Stopped: something is wrong and must be changed first.
	Stopped State = "Stopped"
)

// tone is the color of a state.
func (s State) tone() Tone {
	return map[State]Tone{Done: Good, Working: Busy, Waiting: Busy, Stopped: Bad}[s]
}

// Outcome is the state of a gr, and why.
type Outcome struct {
	State State `json:"state"`
	// Reason of a condition or another closed list of the operator; empty if Done.
	Reason string `json:"reason,omitempty"`
	// Message for people.
	Message string `json:"message,omitempty"`
	// Since is absent if unknown.
	Since *metav1.Time `json:"since,omitempty"`
	// Do is what to do about it; empty for nothing.
	Do string `json:"do,omitempty"`
}

// Reasons of the Progressing condition of a DaemonRollout that need action.
var (
	awaitsUser = []string{string(rollout.ReasonAwaitingApproval), topsv1.ReasonAwaitingRequests, topsv1.ReasonPaused}
	// excluding are reasons of single nodes: others continue.
	excluding = []string{string(rollout.ReasonLeftOut), topsv1.ReasonNodeHeld, topsv1.ReasonLeftToAdministrator}
)

// OutcomeOf summarizes the state of a gr with its rollout, which may be nil.
func OutcomeOf(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) Outcome {
	o := outcome(gr, dro)
	o.Do = adviceFor(o.Reason, gr.Name, "", "")
	if o.Reason == topsv1.ReasonAwaitingRequests {
		o.Do = adviceFor(string(rollout.ReasonAwaitingRequest), gr.Name, "", "")
	}
	if o.State == Stopped && o.Do == "" {
		o.Do = "change what the message names; kubectl describe gr " + gr.Name
	}
	return o
}

func outcome(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) Outcome {
	switch {
	case gr.DeletionTimestamp != nil:
		return Outcome{State: Working, Reason: status.ReasonDeleting, Message: "it is being deleted", Since: gr.DeletionTimestamp}
	case gr.Status.ObservedGeneration != gr.Generation:
		return Outcome{State: Working, Reason: ReasonNotSeen, Message: "the operator has not seen the newest spec yet"}
	}
	if o := stopped(gr, dro); o != nil {
		return *o
	}
	if dro != nil {
		if c := progressing(dro); c != nil && (slices.Contains(awaitsUser, c.Reason) || slices.Contains(excluding, c.Reason) && allExcluded(dro)) {
			return outcomeOf(Waiting, c)
		}
	}
	if a := underWay(gr); a != nil {
		return Outcome{State: Working, Reason: a.Reason, Message: a.Message, Since: begun(dro)}
	}
	if gr.Status.Phase != topsv1.PhaseRunning {
		return Outcome{State: Working, Reason: status.ReasonDeploying, Message: messageOfReady(gr)}
	}
	if dro != nil && !meta.IsStatusConditionTrue(dro.Status.Conditions, topsv1.RolloutComplete) {
		if c := progressing(dro); c != nil {
			return outcomeOf(Working, c)
		}
		return Outcome{State: Working, Reason: ReasonNotSeen, Message: "the operator has not decided about its rollout yet"}
	}
	return Outcome{State: Done, Message: messageOfReady(gr)}
}

// StrategyOf returns the update strategy in the annotations of a gr, "" for none.
func StrategyOf(annotations map[string]string) string {
	return cmp.Or(annotations[topsv1.AnnotationUpdateStrategy], annotations[topsv1.OpenYurtAnnotationUpdateStrategy])
}

// stopped returns what needs to be changed before the gr continues, or nil.
func stopped(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) *Outcome {
	goesOn := []string{status.ReasonReconcileFailed, status.ReasonNodeNotAllowed} // one is transient, the other stops no other node
	if c := find(gr.Status.StandardConditions, status.ConditionDegraded); c != nil && c.Status == metav1.ConditionTrue && !slices.Contains(goesOn, c.Reason) {
		o := outcomeOf(Stopped, c)
		return &o
	}
	if a := underWay(gr); a != nil && a.Reason == status.ReasonNoStrategy {
		return &Outcome{State: Stopped, Reason: a.Reason, Message: a.Message, Since: &a.LastUpdateTime} // it stays there until someone acts
	}
	if dro == nil {
		return nil
	}
	if c := find(dro.Status.Conditions, topsv1.RolloutAccepted); c != nil && c.Status == metav1.ConditionFalse {
		o := outcomeOf(Stopped, c)
		return &o
	}
	c := find(dro.Status.Conditions, topsv1.RolloutHalted)
	if c != nil && c.Status == metav1.ConditionTrue && !dro.Status.RollingBack() && !begins(gr) {
		o := outcomeOf(Stopped, c)
		return &o
	}
	return stoppedByReason(gr, dro)
}

// stoppedByReason returns what stops a rollout by the reason of its condition Progressing, nil if nothing does. An image that cannot be
// pulled stops it once it is Stalled.
func stoppedByReason(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) *Outcome {
	c := progressing(dro)
	if c == nil {
		return nil
	}
	o := outcomeOf(Stopped, c)
	switch c.Reason {
	case topsv1.ReasonGlobalTaskFailed:
		return &o
	case topsv1.ReasonPrepullFailed:
		if meta.IsStatusConditionTrue(dro.Status.Conditions, topsv1.ConditionStalled) {
			return &o
		}
	case topsv1.ReasonNodesFailed, topsv1.ReasonNodesPinned:
		if c.Reason == topsv1.ReasonNodesFailed && begins(gr) {
			return nil
		}
		o.Reason = topsv1.ReasonHalted // the advice is the same
		return &o
	}
	return nil
}

// begins reports whether an upgrade of the gr is in progress according to the operator: a
// halt in its rollout's status, or failed nodes, are then about the earlier spec.
func begins(gr *topsv1.GcuResource) bool {
	a := underWay(gr)
	return a != nil && (a.Reason == status.ReasonUpgrading || a.Reason == topsv1.ReasonRollingBack)
}

// allExcluded reports whether every waiting node has one of the reasons in excluding.
func allExcluded(dro *topsv1.DaemonRollout) bool {
	return !slices.ContainsFunc(dro.Status.Waiting, func(w topsv1.WaitingNote) bool { return !slices.Contains(excluding, w.Reason) })
}

// begun returns since when a rollout is starting nodes, nil if it is not. The gr's own
// condition has the time of its last step instead.
func begun(dro *topsv1.DaemonRollout) *metav1.Time {
	if dro == nil {
		return nil
	}
	if c := progressing(dro); c != nil && c.Status == metav1.ConditionTrue {
		return &c.LastTransitionTime
	}
	return nil
}

// underWay returns the unfinished upgrade or rollback of a gr, or nil.
func underWay(gr *topsv1.GcuResource) *topsv1.ActionCondition {
	for i := range gr.Status.Conditions {
		c := &gr.Status.Conditions[i]
		if c.Status == topsv1.PhaseUpgrading || c.Status == topsv1.PhaseRollbacking {
			return c
		}
	}
	return nil
}

func messageOfReady(gr *topsv1.GcuResource) string {
	if c := find(gr.Status.StandardConditions, status.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

func progressing(dro *topsv1.DaemonRollout) *metav1.Condition {
	return find(dro.Status.Conditions, topsv1.RolloutProgressing)
}

func find(conditions []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, kind)
}

func outcomeOf(s State, c *metav1.Condition) Outcome {
	return Outcome{State: s, Reason: c.Reason, Message: c.Message, Since: &c.LastTransitionTime}
}
