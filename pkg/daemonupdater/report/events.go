package report

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Reasons of events that are not the reason of a condition.
const (
	eventNodeFailed    = "NodeFailed"
	eventNodePinned    = "NodePinned"
	eventNodesSkipped  = "NodesSkipped"
	eventNodesReturned = "NodesReturned"
	eventRolledBack    = topsv1.ReasonRolledBack
)

// Event is one event about a rollout group.
type Event struct {
	Type    string
	Reason  string
	Message string
}

// Events returns the events about the changes between two stored statuses.
func Events(before, after *topsv1.DaemonRolloutStatus) []Event {
	var events []Event
	if c := changed(before, after, topsv1.RolloutAccepted); c != nil && c.Status == metav1.ConditionFalse {
		events = append(events, Event{corev1.EventTypeWarning, c.Reason, c.Message})
	}
	if c := changed(before, after, topsv1.RolloutProgressing); c != nil && reportable(before, after, c) {
		kind := corev1.EventTypeNormal
		if c.Reason == reasonHalted || c.Reason == reasonNodesFailed {
			kind = corev1.EventTypeWarning
		}
		events = append(events, Event{kind, c.Reason, c.Message})
	}
	if c := changed(before, after, topsv1.RolloutGated); c != nil && c.Status == metav1.ConditionFalse {
		events = append(events, Event{corev1.EventTypeWarning, c.Reason, c.Message})
	}
	events = append(events, failEvents(before, after)...)
	events = append(events, pinEvents(before.Pinned, after.Pinned)...)
	events = append(events, rollbackEvents(before.Rollback, after.Rollback)...)
	return append(events, skipEvents(before, after)...)
}

// rollbackEvents reports the start and the completion of a rollback.
func rollbackEvents(before, after *topsv1.RolloutRollback) []Event {
	var events []Event
	if after == nil {
		return nil
	}
	same := before != nil && before.From == after.From && before.To == after.To && before.Time.Equal(&after.Time)
	if !same {
		events = append(events, Event{corev1.EventTypeWarning, reasonRollingBack, after.Message})
	}
	if after.CompletedTime != nil && (!same || before.CompletedTime == nil) {
		events = append(events, Event{corev1.EventTypeNormal, eventRolledBack, "every reachable node is back at revision " + after.To})
	}
	return events
}

// failEvents names the newly failed nodes, with the message of the first.
func failEvents(before, after *topsv1.DaemonRolloutStatus) []Event {
	var failed []string
	first := ""
	for _, f := range after.Failed {
		known := slices.ContainsFunc(before.Failed, func(b topsv1.NodeNote) bool { return b.Node == f.Node && b.Since.Equal(&f.Since) })
		if known {
			continue
		}
		if failed = append(failed, f.Node); first == "" {
			first = f.Message
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return []Event{{corev1.EventTypeWarning, eventNodeFailed, fmt.Sprintf("%s failed: %s", message.Names(failed), first)}}
}

// pinEvents names the newly pinned nodes, with the message of the first.
func pinEvents(before, after []topsv1.NodePin) []Event {
	var nodes []string
	first := ""
	for i := range after {
		p := &after[i]
		if !slices.ContainsFunc(before, func(b topsv1.NodePin) bool { return b.Node == p.Node && b.DaemonSet == p.DaemonSet && b.From == p.From }) {
			if nodes = append(nodes, p.Node); first == "" {
				first = p.Message
			}
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return []Event{{corev1.EventTypeWarning, eventNodePinned, fmt.Sprintf("%s: %s", message.Names(nodes), first)}}
}

// skipEvents names the newly skipped nodes and those that are no longer skipped. If the lists are
// truncated, it only compares the numbers.
func skipEvents(before, after *topsv1.DaemonRolloutStatus) []Event {
	var skipped, returned string
	if max(before.SkippedNodes, after.SkippedNodes) > maxListed {
		if after.SkippedNodes > before.SkippedNodes {
			skipped = message.Count(int(after.SkippedNodes), "node")
		}
		if after.SkippedNodes < before.SkippedNodes {
			returned = message.Count(int(before.SkippedNodes-after.SkippedNodes), "node")
		}
	} else {
		was, is := nodesIn(before.Skipped), nodesIn(after.Skipped)
		skipped, returned = message.Names(missingFrom(was, is)), message.Names(missingFrom(is, was))
	}
	var events []Event
	if skipped != "" {
		events = append(events, Event{corev1.EventTypeNormal, eventNodesSkipped, "offline and skipped; will be upgraded once Ready: " + skipped})
	}
	if returned != "" {
		events = append(events, Event{corev1.EventTypeNormal, eventNodesReturned, "no longer skipped: " + returned})
	}
	return events
}

// reportable reports whether a change of Progressing gets an event. A settings error has an event of its
// own, and the start or end of a transient reason gets none.
func reportable(before, after *topsv1.DaemonRolloutStatus, c *metav1.Condition) bool {
	if c.Reason == reasonRollingBack {
		return false // the event about the rollback covers it
	}
	was := meta.FindStatusCondition(before.Conditions, topsv1.RolloutProgressing)
	passed := was != nil && isMomentary(was.Reason) && before.Revision == after.Revision && slices.Contains(routineReasons, c.Reason)
	return !isMomentary(c.Reason) && c.Reason != topsv1.ReasonAwaitingGlobalTask && !passed && meta.IsStatusConditionTrue(after.Conditions, topsv1.RolloutAccepted)
}

// routineReasons get no event after a transient reason. That a rollout is paused, halted or has failed
// nodes is always reported.
var routineReasons = []string{reasonRollingOut, reasonRollingBack, reasonAwaitingRequests, reasonComplete, reasonReachableComplete}

// isMomentary reports whether a reason is transient, or is about a pod and not about the rollout.
func isMomentary(reason string) bool {
	return observed.Transient(&rollout.Blocked{Reason: reason}) || reason == string(rollout.ReasonUnavailable)
}

func nodesIn(notes []topsv1.NodeNote) []string {
	names := make([]string, len(notes))
	for i := range notes {
		names[i] = notes[i].Node
	}
	return names
}

// missingFrom returns the names that are not in base.
func missingFrom(base, names []string) []string {
	var missing []string
	for _, name := range names {
		if !slices.Contains(base, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Regarding returns the object that the events are about: the GcuResource or the DaemonSet.
func Regarding(s *observed.State) runtime.Object {
	ds := s.Members[0].DaemonSet
	if ref := daemonset.GcuResourceOwner(ds); ref != nil {
		return &topsv1.GcuResource{
			TypeMeta:   metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind},
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name, UID: ref.UID},
		}
	}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: observed.KindDaemonSet},
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID},
	}
}
