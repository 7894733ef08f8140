package audit

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/message"
)

// unknownResult is the result for a pod that is not ready now, in an upgrade that has ended.
const unknownResult = "Unknown"

// replacements returns the pods at the newest revisions that were created in the upgrade, and how many were created after
// its end. It is unknown why the latter were created: they are not counted as work of the upgrade.
func replacements(f *display.Fleet, u *Upgrade) (list []Work, later int) {
	if f.Rollout == nil || !u.Until.IsZero() {
		return nil, 0 // these pods were replaced since
	}
	targets, end := targetsOf(f.Rollout), u.lastEnd()
	for i := range f.Pods {
		pod := &f.Pods[i]
		set := setOf(pod)
		is, goesBack := u.covers(f.Rollout.Status.Revision, pod.CreationTimestamp.Time)
		if !is || targets[set] == "" || daemonset.RevisionHash(pod) != targets[set] {
			continue
		}
		if end != nil && pod.CreationTimestamp.After(*end) {
			later++
			continue
		}
		w := replacement(pod, set, end)
		w.GoesBack = goesBack
		list = append(list, w)
	}
	return list, later
}

// replacement is the work that a pod stands for, in an upgrade with an end, nil if it has none.
func replacement(pod *corev1.Pod, set string, end *time.Time) Work {
	w := Work{Node: daemonset.NodeName(pod), What: set, Began: pod.CreationTimestamp.UTC(), Result: string(topsv1.TaskRunning)}
	if end != nil {
		w.Result, w.endUnknown = unknownResult, true
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
			continue
		}
		w.Result = string(topsv1.TaskDone)
		if end == nil || !c.LastTransitionTime.After(*end) {
			w.Ended, w.endUnknown = utc(&c.LastTransitionTime), false
		}
	}
	return w
}

// unrecorded returns what the pods do not show: those that were replaced, and a number of pods created after the end.
func unrecorded(replaced []Work, later int) []string {
	var missing []string
	ended, open := 0, 0
	for i := range replaced {
		switch w := &replaced[i]; {
		case w.endUnknown:
			open++
		case w.Ended != nil:
			ended++
		}
	}
	if later > 0 {
		missing = append(missing, fmt.Sprintf("%s created after the end of the upgrade, such as after a pod was deleted, a node added or restarted: nothing says that they are its work", message.Count(later, "pod")))
	}
	if open > 0 {
		missing = append(missing, fmt.Sprintf("when the replacement of %s ended: a pod keeps only when it last changed between ready and not ready, and here that was after the end of the upgrade", message.Count(open, "pod")))
	}
	if ended > 0 {
		missing = append(missing, fmt.Sprintf("when %s became ready first: a pod says when it became ready last, so the work may have been shorter", message.Count(ended, "new pod")))
	}
	return missing
}
