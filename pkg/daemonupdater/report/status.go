package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Reasons of the conditions of a DaemonRollout, besides those of settings errors and of
// rollout.Reason.
const (
	reasonAccepted          = "SettingsAccepted"
	reasonRollingOut        = "RollingOut"
	reasonRollingBack       = topsv1.ReasonRollingBack
	reasonAwaitingRequests  = topsv1.ReasonAwaitingRequests
	reasonNodesFailed       = topsv1.ReasonNodesFailed
	reasonNodesPinned       = topsv1.ReasonNodesPinned
	reasonComplete          = topsv1.ReasonComplete
	reasonReachableComplete = "CompleteExceptOffline"
	reasonPaused            = topsv1.ReasonPaused
	reasonHalted            = topsv1.ReasonHalted
	reasonNotHalted         = "NotHalted"
	reasonNotPaused         = "NotPaused"
	reasonIncomplete        = "Incomplete"
	reasonGateServed        = "GateServed"
	reasonGateNotServed     = "GateNotServed"
	reasonGateNotInstalled  = "GateNotInstalled"
)

// Status turns a decision into the status to store. Conditions of previous keep their transition
// time if their status is unchanged.
func Status(previous topsv1.DaemonRolloutStatus, generation int64, in rollout.Input, d rollout.Decision) topsv1.DaemonRolloutStatus {
	previous.InFlight, previous.Queued = nil, nil // not copied: the largest lists, and filled anew
	status := *previous.DeepCopy()
	storeLedger(&status, d.Ledger)
	for i := range status.InFlight {
		status.InFlight[i].Step = stepOf(status.InFlight[i].Node, &d)
	}
	status.Strategy = string(in.Settings.Strategy)
	status.MaxUnavailable = int32(d.MaxUnavailable)
	status.Targets = nil
	for _, m := range in.Members {
		status.Targets = append(status.Targets, topsv1.RevisionTarget{DaemonSet: m.Key, Hash: m.Target})
	}
	status.Total, status.Updated = int32(d.Counts.Total), int32(d.Counts.Updated)
	status.InFlightNodes, status.Pending = int32(d.Counts.InFlight), int32(d.Counts.Pending)
	status.HeldNodes = int32(d.Counts.Held)
	status.SkippedNodes, status.FailedNodes = int32(d.Counts.Skipped), int32(d.Counts.Failed)
	status.PinnedNodes, status.NotPrepulledNodes = int32(d.Counts.Pinned), int32(d.NotPrepulled)
	status.Unavailable = int32(d.Used)
	status.ETASeconds = int32(d.ETA() / time.Second)
	status.Skipped, status.Waiting = skippedOf(&d), waitingOf(&d)
	for _, c := range conditionsOf(in, d) {
		if c.Status == metav1.ConditionFalse && onlyWhenTrue(c.Type) {
			meta.RemoveStatusCondition(&status.Conditions, c.Type)
			continue
		}
		c.ObservedGeneration, c.Message = generation, message.Short(c.Message, maxCondition)
		c.LastTransitionTime = wholeSecond(in.Now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func skippedOf(d *rollout.Decision) []topsv1.NodeNote {
	var notes []topsv1.NodeNote
	for _, v := range d.Skipped(maxListed) {
		notes = append(notes, topsv1.NodeNote{Node: v.Node, Reason: string(v.Reason), Message: v.Message, Since: wholeSecond(v.Since)})
	}
	return notes
}

// stepOf returns what a node in flight waits for. A node whose Node object is gone is lost.
func stepOf(node string, d *rollout.Decision) string {
	if v, ok := d.Verdict(node); ok && v.State == rollout.InFlight {
		return string(v.Reason)
	}
	return string(rollout.ReasonNodeLost)
}

func waitingOf(d *rollout.Decision) []topsv1.WaitingNote {
	var notes []topsv1.WaitingNote
	for _, w := range d.Waiting {
		notes = append(notes, topsv1.WaitingNote{Reason: string(w.Reason), Nodes: int32(w.Nodes), Message: message.Short(w.Message, maxMessage)})
	}
	return notes
}

func conditionsOf(in rollout.Input, d rollout.Decision) []metav1.Condition {
	progress := progressing(in, d)
	return []metav1.Condition{
		accepted(in),
		progress,
		condition(topsv1.RolloutHalted, d.Halted != "", reasonHalted, reasonNotHalted,
			cmp.Or(d.Halted, "too few nodes have failed to halt the rollout")),
		condition(topsv1.RolloutPaused, in.Settings.Paused, reasonPaused, reasonNotPaused,
			pausedMessage(in.Settings.Paused)),
		condition(topsv1.RolloutComplete, IsComplete(in, d), progress.Reason, reasonIncomplete, summary(d)),
		condition(topsv1.ConditionStalled, needsPerson(in, d, progress.Reason), progress.Reason, progress.Reason, progress.Message),
		condition(topsv1.ConditionReconciling, isReconciling(in, d, progress.Reason), progress.Reason, progress.Reason, progress.Message),
	}
}

// pausedMessage returns the message of condition Paused.
func pausedMessage(paused bool) string {
	if paused {
		return "annotation " + topsv1.AnnotationPaused + " is true; to continue, run kubectl gcu resume, or remove the annotation"
	}
	return "annotation " + topsv1.AnnotationPaused + " is not true"
}

// onlyWhenTrue reports whether a condition is present only while it is True, as kstatus expects.
func onlyWhenTrue(kind string) bool {
	return kind == topsv1.ConditionStalled || kind == topsv1.ConditionReconciling
}

// needsPerson reports whether the rollout does not continue until a person acts.
func needsPerson(in rollout.Input, d rollout.Decision, reason string) bool {
	return d.Halted != "" || accepted(in).Status == metav1.ConditionFalse || reason == reasonNodesFailed || reason == reasonNodesPinned || reason == topsv1.ReasonGlobalTaskFailed ||
		reason == topsv1.ReasonPrepullFailed && d.PrepullKeepsFailing
}

// isReconciling reports whether nodes are left to upgrade. Nodes that wait for a request, under strategy OTA,
// do not count.
func isReconciling(in rollout.Input, d rollout.Decision, reason string) bool {
	return !IsComplete(in, d) && !needsPerson(in, d, reason) && reason != reasonAwaitingRequests
}

func condition(kind string, is bool, yes, no, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: no, Message: message}
	if is {
		c.Status, c.Reason = metav1.ConditionTrue, yes
	}
	return c
}

func accepted(in rollout.Input) metav1.Condition {
	c := metav1.Condition{Type: topsv1.RolloutAccepted, Status: metav1.ConditionTrue, Reason: reasonAccepted, Message: "the upgrade annotations are valid"}
	if b := observed.NotAccepted(&in); b != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, b.Reason, b.Message
	}
	return c
}

// IsComplete reports whether every reachable node is at the target, no node has failed or is pinned to an
// earlier revision, and nothing is left to do before or after the nodes.
func IsComplete(in rollout.Input, d rollout.Decision) bool {
	return in.Blocked == nil && in.Beforehand == nil && in.Afterwards == nil && d.Counts.Pending+d.Counts.Held+d.Counts.Pinned == 0 && len(d.Ledger.Failures) == 0 && d.Ledger.InFlight() == 0
}

// progressing returns the Progressing condition, whose reason says where the rollout stands.
func progressing(in rollout.Input, d rollout.Decision) metav1.Condition {
	c := metav1.Condition{Type: topsv1.RolloutProgressing, Status: metav1.ConditionFalse, Message: summary(d)}
	usedUp := usedUpByFailed(d)
	switch task := cmp.Or(observed.NotAccepted(&in), in.Afterwards); {
	case in.Blocked != nil:
		c.Reason, c.Message = in.Blocked.Reason, in.Blocked.Message
	case d.Halted != "":
		c.Reason, c.Message = reasonHalted, d.Halted+"; "+c.Message
	case task != nil:
		c.Reason, c.Message = task.Reason, task.Message+"; "+c.Message
	case IsComplete(in, d) && d.Counts.Skipped > 0:
		c.Reason = reasonReachableComplete
	case IsComplete(in, d):
		c.Reason = reasonComplete
	case d.Ledger.InFlight() > 0:
		c.Status, c.Reason = metav1.ConditionTrue, reasonRollingOut
		if v, ok := deniedOf(&d); ok {
			c.Message = v.Node + ": " + v.Message + "; " + c.Message
		}
	case in.Beforehand != nil:
		c.Reason, c.Message = in.Beforehand.Reason, in.Beforehand.Message+"; "+c.Message
	case in.Settings.Paused:
		c.Reason = reasonPaused
	case awaitsRequests(d):
		c.Reason = reasonAwaitingRequests
	case usedUp != "":
		c.Reason, c.Message = reasonNodesFailed, usedUp+"; "+c.Message
	case len(d.Waiting) > 0:
		c.Reason, c.Message = string(waiting(d).Reason), waiting(d).Message+"; "+c.Message
	default:
		c.Reason, c.Message = leftOver(d, c.Message)
	}
	return c
}

// usedUpByFailed says that nodes wait because failed nodes use up a budget, "" if that is not so.
func usedUpByFailed(d rollout.Decision) string {
	w := waiting(d)
	budgets := []rollout.Reason{rollout.ReasonBudgetExhausted, rollout.ReasonPoolExhausted}
	if i := slices.IndexFunc(d.Waiting, func(w rollout.Waiting) bool { return slices.Contains(budgets, w.Reason) }); i >= 0 && w.Reason == rollout.ReasonWaveNotReached {
		w = d.Waiting[i] // others only wait for these
	}
	switch {
	case d.UsedByFailed == 0:
	case w.Reason == rollout.ReasonBudgetExhausted:
		return "failed nodes use up max-unavailable: repair them or roll out another revision"
	case w.Reason == rollout.ReasonPoolExhausted:
		return "failed nodes use up the budget of their pool: repair them or roll out another revision; " + w.Message
	}
	return ""
}

// leftOver returns why a rollout with nothing left to do is not complete.
func leftOver(d rollout.Decision, summary string) (reason, text string) {
	if len(d.Ledger.Failures) == 0 && d.Counts.Pinned > 0 {
		return reasonNodesPinned, "pinned nodes stay at an earlier revision: roll out another revision, or try again with kubectl gcu task retry; " + summary
	}
	if gone := d.FailedAndGone(); len(gone) > 0 {
		return reasonNodesFailed, "failed earlier and gone: " + message.Names(gone) + "; clear that with kubectl gcu resume, or roll out another revision; " + summary
	}
	return reasonNodesFailed, summary
}

// deniedOf returns the verdict on the first node in flight that waits because the API server denies a write, false if none does.
func deniedOf(d *rollout.Decision) (rollout.Verdict, bool) {
	for i := range d.Ledger.Slots {
		if v, ok := d.Verdict(d.Ledger.Slots[i].Node); ok && v.State == rollout.InFlight && v.Reason.IsDenied() {
			return v, true
		}
	}
	return rollout.Verdict{}, false
}

// waiting returns why most nodes wait. It ignores nodes that are left out or have a hold, unless
// there are no others, because they do not delay the rollout; and that nodes wait for an earlier wave, if one cannot be
// upgraded. It is zero if no node waits.
func waiting(d rollout.Decision) rollout.Waiting {
	if len(d.Waiting) == 0 {
		return rollout.Waiting{}
	}
	first := func(matches func(rollout.Reason) bool) int {
		return slices.IndexFunc(d.Waiting, func(w rollout.Waiting) bool { return matches(w.Reason) })
	}
	i := max(first(func(r rollout.Reason) bool { return r != rollout.ReasonLeftOut && r != rollout.ReasonNodeHeld }), 0)
	cause := first(func(r rollout.Reason) bool { return slices.Contains(causes, r) })
	if d.Waiting[i].Reason == rollout.ReasonWaveNotReached && cause >= 0 {
		return d.Waiting[cause]
	}
	return d.Waiting[i]
}

// causes are the reasons of nodes that may be why a wave does not come to its end.
var causes = []rollout.Reason{rollout.ReasonPrepullFailed, rollout.ReasonDeletionDenied, rollout.ReasonDeferred, rollout.ReasonRuntimeSetBack}

// awaitsRequests reports whether any node waits for a request.
func awaitsRequests(d rollout.Decision) bool {
	return slices.ContainsFunc(d.Waiting, func(w rollout.Waiting) bool { return w.Reason == rollout.ReasonAwaitingRequest })
}

// summary returns the counts in one sentence, with the first names of nodes in flight, skipped
// and failed.
func summary(d rollout.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d nodes updated", d.Counts.Updated, d.Counts.Total)
	var inFlight, failed, skipped, pinned []string
	for i := range d.Ledger.Slots {
		if !d.Ledger.Slots[i].Queued {
			inFlight = append(inFlight, d.Ledger.Slots[i].Node)
		}
	}
	for i := range d.Ledger.Failures {
		failed = append(failed, d.Ledger.Failures[i].Node)
	}
	for i := range d.Ledger.Pins {
		pinned = append(pinned, d.Ledger.Pins[i].Node)
	}
	for _, v := range d.Skipped(maxListed) {
		skipped = append(skipped, v.Node)
	}
	parts := []struct {
		count int
		text  string
		names []string
	}{
		{d.Counts.InFlight, "in flight", inFlight},
		{d.Counts.Pending, "pending", nil},
		{d.Counts.Held, "held", nil},
		{d.Counts.Skipped, "skipped because they are offline", skipped},
		{d.Counts.Failed, "failed", failed},
		{d.Counts.Pinned, "pinned to an earlier revision", pinned},
	}
	for _, p := range parts {
		switch {
		case p.count > 0 && len(p.names) > 0:
			fmt.Fprintf(&b, ", %d %s (%s)", p.count, p.text, message.NamesOf(p.names, p.count))
		case p.count > 0:
			fmt.Fprintf(&b, ", %d %s", p.count, p.text)
		}
	}
	return b.String()
}
