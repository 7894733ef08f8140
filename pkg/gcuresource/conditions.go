package gcuresource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Types of the standard conditions of a gr (decision D5).
const (
	// ConditionReady is True when every component is Running.
	ConditionReady = "Ready"
	// ConditionProgressing is True while this operator changes something by itself.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when somebody has to change something: its
	// reason is that of the first failure.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a gr, beside those of Failure, of the upgrade
// and of the upgrade settings.
const (
	// ReasonRunning means that every component is Running.
	ReasonRunning = "Running"
	// ReasonDeploying means that a component is not there yet, or lost pods.
	ReasonDeploying = "Deploying"
	// ReasonDeleting means that the gr is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonRemoving means that objects the spec no longer asks for are going.
	ReasonRemoving = "Removing"
	// ReasonComplete means that nothing is left to do.
	ReasonComplete = "Complete"
	// ReasonFailed means that a component failed.
	ReasonFailed = "Failed"
	// ReasonReconcileFailed means that something keeps failing which is no component's own.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonAsExpected means that nothing is wrong.
	ReasonAsExpected = "AsExpected"
)

// actions returns the conditions of the seed's shape (contract statements 37
// to 41): deploy is over when every component runs or is being upgraded.
func actions(obs *Observation, status *topsv1.GcuResourceStatus, u *upgrade, now time.Time) []topsv1.ActionCondition {
	words := phaseWords(status)
	there := occurrences(words, topsv1.PhaseRunning, topsv1.PhaseUpgrading, topsv1.PhaseRollbacking)
	deploy := success(topsv1.ActionDeploy)
	if there < len(words) {
		deploy = topsv1.ActionCondition{Action: topsv1.ActionDeploy, Status: topsv1.PhaseDeploying, Reason: ReasonDeploying,
			Message: deployMessage(status), Progress: int32(there * 100 / len(words))}
	}
	if status.Phase == topsv1.PhaseFailed {
		deploy.Status, deploy.Reason, deploy.Message = topsv1.PhaseFailed, ReasonFailed, failureMessage(status)
	}
	list := setAction(obs.Resource.Status.Conditions, deploy, now)
	return upgradeActions(obs, list, u, now)
}

// success is the condition of a finished action (contract statement 41).
func success(action string) topsv1.ActionCondition {
	return topsv1.ActionCondition{Action: action, Status: topsv1.ConditionSuccess, Reason: topsv1.ConditionSuccess,
		Message: topsv1.ConditionSuccess, Progress: 100}
}

// setAction returns the list with the condition of one action replaced. A
// condition that did not change keeps its time and its place; one that did is
// the newest, so it comes last. The given list is not changed.
func setAction(list []topsv1.ActionCondition, c topsv1.ActionCondition, now time.Time) []topsv1.ActionCondition {
	c.Type = c.Action
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(have topsv1.ActionCondition) bool { return have.Action == c.Action })
	if i >= 0 {
		c.LastUpdateTime = list[i].LastUpdateTime
		if list[i] == c {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	c.LastUpdateTime = seconds(now)
	return append(list, c)
}

// seconds is a time as the API stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// standardConditions returns Ready, Progressing and Degraded.
func standardConditions(obs *Observation, plan Plan, status *topsv1.GcuResourceStatus, u *upgrade, now time.Time) []metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse}
	switch status.Phase {
	case topsv1.PhaseRunning:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, ReasonRunning, runningMessage(plan)
	case topsv1.PhaseFailed:
		ready.Reason, ready.Message = ReasonFailed, failureMessage(status)
	case topsv1.PhaseUpgrading:
		ready.Reason, ready.Message = ReasonUpgrading, u.message
	case topsv1.PhaseRollbacking:
		ready.Reason, ready.Message = ReasonRollingBack, u.message
	default:
		ready.Reason, ready.Message = ReasonDeploying, deployMessage(status)
	}
	return setConditions(obs.Resource, now, ready, progressing(plan, status, u), degraded(obs, plan, status))
}

func progressing(plan Plan, status *topsv1.GcuResourceStatus, u *upgrade) metav1.Condition {
	c := metav1.Condition{Type: ConditionProgressing, Status: metav1.ConditionTrue}
	switch {
	case slices.Contains(phaseWords(status), topsv1.PhaseDeploying):
		c.Reason, c.Message = ReasonDeploying, deployMessage(status)
	case len(plan.Delete) > 0:
		c.Reason, c.Message = ReasonRemoving, "removing what the spec no longer asks for: "+message.Names(refNames(plan.Delete))
	case u.open && (u.reason == ReasonUpgrading || u.reason == ReasonRollingBack):
		c.Reason, c.Message = u.reason, u.message
	case u.open:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, u.reason, u.message
	case status.Phase == topsv1.PhaseFailed:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonFailed, failureMessage(status)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonComplete, "nothing left to do"
	}
	return c
}

func degraded(obs *Observation, plan Plan, status *topsv1.GcuResourceStatus) metav1.Condition {
	c := degradedBy(obs.Trouble)
	var messages []string
	if m := failureMessage(status); m != "" {
		messages = append(messages, m)
	}
	if f := obs.Trouble; f != nil {
		messages = append(messages, f.Message)
	}
	if f := obs.Rollback; f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	if f := obs.Halt; f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	_, err := settingsOf(obs.Resource)
	if f := settingsFailure(err); f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	for i := len(plan.Steps) - 1; i >= 0; i-- {
		if f := plan.Steps[i].Failure; f != nil {
			c.Reason = f.Reason
		}
	}
	if len(messages) > 0 {
		c.Status, c.Message = metav1.ConditionTrue, strings.Join(messages, "; ")
	}
	return c
}

// degradedBy is the condition for one failure, or for none when it is nil.
func degradedBy(f *Failure) metav1.Condition {
	if f == nil {
		return metav1.Condition{Type: ConditionDegraded, Status: metav1.ConditionFalse, Reason: ReasonAsExpected, Message: "nothing is wrong"}
	}
	return metav1.Condition{Type: ConditionDegraded, Status: metav1.ConditionTrue, Reason: f.Reason, Message: f.Message}
}

// runningMessage says that all is well, and which nodes that does not cover.
func runningMessage(plan Plan) string {
	offline := map[string]bool{}
	for i := range plan.Steps {
		for _, node := range plan.Steps[i].health.offline {
			offline[node] = true
		}
	}
	if len(offline) == 0 {
		return "every component runs on all its nodes"
	}
	var sorted []string
	for node := range offline {
		sorted = append(sorted, node)
	}
	slices.Sort(sorted)
	return fmt.Sprintf("every component runs on all its Ready nodes; %s not Ready and not waited for: %s",
		message.Count(len(sorted), "node"), message.Names(sorted))
}

// teardownConditions returns the standard conditions of a gr that is being deleted.
func teardownConditions(obs *Observation, message string, now time.Time) []metav1.Condition {
	return setConditions(obs.Resource, now, degradedBy(obs.Trouble),
		metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonDeleting, Message: message},
		metav1.Condition{Type: ConditionProgressing, Status: metav1.ConditionTrue, Reason: ReasonDeleting, Message: message},
	)
}

// setConditions lays conditions over those the gr has; the time of one changes
// only with its status.
func setConditions(gr *topsv1.GcuResource, now time.Time, conditions ...metav1.Condition) []metav1.Condition {
	list := slices.Clone(gr.Status.StandardConditions)
	for _, c := range conditions {
		c.ObservedGeneration = gr.Generation
		c.LastTransitionTime = seconds(now)
		meta.SetStatusCondition(&list, c)
	}
	return list
}

func refNames(objects []Owned) []string {
	list := make([]string, 0, len(objects))
	for _, o := range objects {
		list = append(list, o.Ref.String())
	}
	return list
}
