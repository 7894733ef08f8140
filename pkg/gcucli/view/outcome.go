package view

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// State is how a gr stands, for a person or a script.
type State string

// States of a gr; a closed list.
const (
	// Done: every component runs, and every reachable node is at the newest spec.
	Done State = "Done"
	// Working: it goes on by itself.
	Working State = "Working"
	// Waiting: it goes on when a person does what the advice says.
	Waiting State = "Waiting"
	// Stopped: something is wrong, and it does not go on before that is changed.
	Stopped State = "Stopped"
)

// tone is the colour of a state.
func (s State) tone() Tone {
	return map[State]Tone{Done: Good, Working: Busy, Waiting: Busy, Stopped: Bad}[s]
}

// Outcome is how a gr stands, and why.
type Outcome struct {
	State State `json:"state"`
	// Reason in one word, of a condition or a closed list of the operator; empty when Done.
	Reason string `json:"reason,omitempty"`
	// Message for a person.
	Message string `json:"message,omitempty"`
	// Since when; absent when it is not known.
	Since *metav1.Time `json:"since,omitempty"`
	// Do is what to do about it; empty for nothing.
	Do string `json:"do,omitempty"`
}

// troubles of the operator that pass by themselves are no reason to stop waiting.
const reasonReconcileFailed = "ReconcileFailed"

// reasons of the Progressing condition of a DaemonRollout that need a person.
var (
	awaitsPerson = []string{"AwaitingApproval", "AwaitingRequests", "Paused"}
	// keptBack are those that hold single nodes: others go on.
	keptBack    = []string{"LeftOut", "NodeHeld"}
	nodesFailed = "NodesFailed"
)

// OutcomeOf says how a gr stands with its rollout, which is nil when there is none.
func OutcomeOf(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) Outcome {
	o := outcome(gr, dro)
	o.Do = adviceFor(o.Reason, gr.Name, "", "")
	if o.Reason == "AwaitingRequests" {
		o.Do = adviceFor("AwaitingRequest", gr.Name, "", "")
	}
	if o.State == Stopped && o.Do == "" {
		o.Do = "change what the message names; kubectl describe gr " + gr.Name
	}
	return o
}

func outcome(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) Outcome {
	switch {
	case gr.DeletionTimestamp != nil:
		return Outcome{State: Working, Reason: "Deleting", Message: "it is being deleted", Since: gr.DeletionTimestamp}
	case gr.Status.ObservedGeneration != gr.Generation:
		return Outcome{State: Working, Reason: ReasonNotSeen, Message: "the operator has not seen the newest spec yet"}
	}
	if o := stopped(gr, dro); o != nil {
		return *o
	}
	if dro != nil {
		if c := progressing(dro); c != nil && (slices.Contains(awaitsPerson, c.Reason) || slices.Contains(keptBack, c.Reason) && noneGoesOn(dro)) {
			return outcomeOf(Waiting, c)
		}
	}
	if a := underWay(gr); a != nil {
		return Outcome{State: Working, Reason: a.Reason, Message: a.Message, Since: begun(dro)}
	}
	if gr.Status.Phase != topsv1.PhaseRunning {
		return Outcome{State: Working, Reason: "Deploying", Message: messageOfReady(gr)}
	}
	if dro != nil && !meta.IsStatusConditionTrue(dro.Status.Conditions, topsv1.RolloutComplete) {
		if c := progressing(dro); c != nil {
			return outcomeOf(Working, c)
		}
	}
	return Outcome{State: Done, Message: messageOfReady(gr)}
}

// stopped says what does not pass by itself, nil when there is nothing.
func stopped(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) *Outcome {
	if c := find(gr.Status.StandardConditions, "Degraded"); c != nil && c.Status == metav1.ConditionTrue && c.Reason != reasonReconcileFailed {
		o := outcomeOf(Stopped, c)
		return &o
	}
	if a := underWay(gr); a != nil && a.Reason == ReasonNoStrategy {
		return &Outcome{State: Stopped, Reason: a.Reason, Message: a.Message, Since: &a.LastUpdateTime} // nothing moves it
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
	if c := progressing(dro); c != nil && c.Reason == nodesFailed {
		o := outcomeOf(Stopped, c)
		o.Reason = "Halted" // the same helps
		return &o
	}
	return nil
}

// begins reports whether an upgrade of the gr goes on, as the operator says: what its rollout
// says of a halt is about the spec before.
func begins(gr *topsv1.GcuResource) bool {
	a := underWay(gr)
	return a != nil && (a.Reason == "Upgrading" || a.Reason == "RollingBack")
}

// noneGoesOn reports whether every node that waits is kept back by a person.
func noneGoesOn(dro *topsv1.DaemonRollout) bool {
	return !slices.ContainsFunc(dro.Status.Waiting, func(w topsv1.WaitingNote) bool { return !slices.Contains(keptBack, w.Reason) })
}

// begun is since when a rollout starts nodes, nil when it does not. The time of a
// gr's own condition is that of its last step.
func begun(dro *topsv1.DaemonRollout) *metav1.Time {
	if dro == nil {
		return nil
	}
	if c := progressing(dro); c != nil && c.Status == metav1.ConditionTrue {
		return &c.LastTransitionTime
	}
	return nil
}

// underWay is the upgrade or rollback of a gr that is not over, nil for none.
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
	if c := find(gr.Status.StandardConditions, "Ready"); c != nil {
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
