package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Types of the standard conditions of a gr (decision D5).
const (
	// ConditionReady is True when every component is Running.
	ConditionReady = "Ready"
	// ConditionProgressing is True while this operator changes something on its own.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True if someone has to change something; its reason is the reason of the
	// first failure.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a gr, besides those of Failure, of the upgrade and of the upgrade
// settings.
const (
	// ReasonRunning means that every component is Running.
	ReasonRunning = "Running"
	// ReasonDeploying means that a component does not exist yet, or lost pods.
	ReasonDeploying = "Deploying"
	// ReasonDeleting means that the gr is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonRemoving means that objects the spec no longer requests are being deleted.
	ReasonRemoving = "Removing"
	// ReasonComplete means that nothing is left to do.
	ReasonComplete = topsv1.ReasonComplete
	// ReasonFailed means that a component failed.
	ReasonFailed = "Failed"
	// ReasonReconcileFailed means that something other than a component keeps failing.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonNodeNotAllowed is that of package state: it concerns nodes without components only.
	ReasonNodeNotAllowed = state.ReasonNodeNotAllowed
	// ReasonAsExpected means that nothing is wrong.
	ReasonAsExpected = "AsExpected"
)

// maxCondition bounds the message of a condition, which may join an error for each node: the API server would not
// accept a status with a longer one than 32768 bytes.
const maxCondition = 4096

// standardConditions returns Ready, Progressing and Degraded.
func standardConditions(obs *state.Observation, decided plan.Plan, status *topsv1.GcuResourceStatus, u *upgrade, now time.Time) []metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse}
	switch status.Phase {
	case topsv1.PhaseRunning:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, ReasonRunning, runningMessage(decided)
	case topsv1.PhaseFailed:
		ready.Reason, ready.Message = ReasonFailed, failureMessage(status)
	case topsv1.PhaseUpgrading:
		ready.Reason, ready.Message = ReasonUpgrading, u.message
	case topsv1.PhaseRollbacking:
		ready.Reason, ready.Message = ReasonRollingBack, u.message
	default:
		ready.Reason, ready.Message = ReasonDeploying, deployMessage(status)
	}
	return setConditions(obs.Resource, now, ready, progressing(obs, decided, status, u), degraded(obs, decided, status))
}

func progressing(obs *state.Observation, decided plan.Plan, status *topsv1.GcuResourceStatus, u *upgrade) metav1.Condition {
	c := metav1.Condition{Type: ConditionProgressing, Status: metav1.ConditionTrue}
	switch {
	case slices.Contains(phaseWords(status), topsv1.PhaseDeploying):
		c.Reason, c.Message = ReasonDeploying, deployMessage(status)
	case len(decided.Delete) > 0:
		c.Reason, c.Message = ReasonRemoving, "removing what is no longer in the spec: "+message.Names(refNames(decided.Delete))
	case u.open && (u.reason == ReasonUpgrading || u.reason == ReasonRollingBack):
		c.Reason, c.Message = u.reason, u.message
	case u.open:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, u.reason, u.message
	case status.Phase == topsv1.PhaseFailed:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonFailed, failureMessage(status)
	default:
		c.Reason, c.Message = unfinished(obs, decided.Steps)
		if c.Reason != ReasonRemoving && c.Reason != ReasonUpgrading {
			c.Status = metav1.ConditionFalse
		}
	}
	return c
}

// unfinished returns what is left of a rollout though the newest pods run on all nodes, as a reason and a message.
func unfinished(obs *state.Observation, steps []plan.Step) (reason, what string) {
	settings, err := settingsOf(obs, steps)
	refs := []string{}
	for _, o := range leaving(obs) {
		refs = append(refs, o.Ref.String())
	}
	switch {
	case obs.Rollout.Halt != nil:
		return obs.Rollout.Halt.Reason, obs.Rollout.Halt.Message
	case obs.Rollout.Unfinished:
	case len(refs) == 0 || err != nil || settings.Strategy != daemonset.OTA:
		return ReasonComplete, "nothing left to do"
	}
	what = "the rollout is not finished: kubectl gcu status says what is left"
	reason, words := upgradeWords(settings, err)
	if len(refs) > 0 {
		what = "removing node by node what is no longer in the spec: " + message.Names(refs)
		if reason == ReasonUpgrading {
			reason = ReasonRemoving
		}
	}
	return reason, what + words
}

func degraded(obs *state.Observation, decided plan.Plan, status *topsv1.GcuResourceStatus) metav1.Condition {
	var messages []string
	guarded := state.NodeNotAllowed(obs.NotAllowed())
	c := degradedBy(cmp.Or(obs.ReconcileFailure, guarded))
	missing := driverMissing(decided)
	if missing != nil {
		messages = append(messages, missing.Message)
	}
	if m := failureMessage(status); m != "" {
		messages = append(messages, m)
	}
	for _, f := range []*state.Failure{obs.ReconcileFailure, guarded} {
		if f != nil {
			messages = append(messages, f.Message)
		}
	}
	if f := obs.Rollback; f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	if f := obs.Rejected; f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	if f := obs.Rollout.Halt; f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	_, err := settingsOf(obs, decided.Steps)
	if f := settingsFailure(err); f != nil {
		messages = append(messages, f.Message)
		c.Reason = f.Reason
	}
	for i := len(decided.Steps) - 1; i >= 0; i-- {
		if f := decided.Steps[i].Failure; f != nil {
			c.Reason = f.Reason
		}
	}
	if missing != nil { // the cause of others
		c.Reason = missing.Reason
	}
	if len(messages) > 0 {
		c.Status, c.Message = metav1.ConditionTrue, strings.Join(messages, "; ")
	}
	return c
}

// driverMissing returns the Failure of nodes without a driver that a component needs there, nil if
// there are none.
func driverMissing(decided plan.Plan) *state.Failure {
	nodes := nodesOf(decided, func(h *state.Health) []string { return h.Driverless })
	if len(nodes) == 0 {
		return nil
	}
	return state.DriverMissing(nodes)
}

// nodesOf returns nodes in the health of the components, sorted.
func nodesOf(decided plan.Plan, of func(*state.Health) []string) []string {
	set := map[string]bool{}
	for i := range decided.Steps {
		for _, node := range of(&decided.Steps[i].Health) {
			set[node] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// degradedBy returns Degraded for one failure, or for none if it is nil.
func degradedBy(f *state.Failure) metav1.Condition {
	if f == nil {
		return metav1.Condition{Type: ConditionDegraded, Status: metav1.ConditionFalse, Reason: ReasonAsExpected, Message: "nothing is wrong"}
	}
	return metav1.Condition{Type: ConditionDegraded, Status: metav1.ConditionTrue, Reason: f.Reason, Message: f.Message}
}

// runningMessage says that everything runs, and names the nodes that are not Ready.
func runningMessage(decided plan.Plan) string {
	offline := nodesOf(decided, func(h *state.Health) []string { return h.Offline })
	if len(offline) == 0 {
		return "every component runs on all its nodes"
	}
	return fmt.Sprintf("every component runs on all its Ready nodes; %s not Ready and not waited for: %s",
		message.Count(len(offline), "node"), message.Names(offline))
}

// ReconcileFailure returns the Failure for an error that is not a component's own.
func ReconcileFailure(err error) *state.Failure {
	return &state.Failure{Reason: ReasonReconcileFailed, Message: err.Error(), Retry: true}
}

// setConditions adds conditions to those of the gr; the time of a condition changes only with its
// status.
func setConditions(gr *topsv1.GcuResource, now time.Time, conditions ...metav1.Condition) []metav1.Condition {
	list := slices.Clone(gr.Status.StandardConditions)
	for _, c := range conditions {
		c.ObservedGeneration, c.Message = gr.Generation, message.Short(c.Message, maxCondition)
		c.LastTransitionTime = seconds(now)
		meta.SetStatusCondition(&list, c)
	}
	return list
}

func refNames(objects []state.Owned) []string {
	list := make([]string, 0, len(objects))
	for _, o := range objects {
		list = append(list, o.Ref.String())
	}
	return list
}
