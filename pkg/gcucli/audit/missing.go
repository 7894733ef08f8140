package audit

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// gone returns on how many of the nodes at the revision of the end nothing shows work, nor that they had that revision
// before; "" if there are none.
func gone(f *display.Fleet, u *Upgrade, list []Work) string {
	var last topsv1.RolloutRecordEntry
	for _, e := range u.Entries {
		if e.Event == topsv1.RecordComplete || e.Event == topsv1.RecordRolledBack {
			last = e
		}
	}
	known, end, back := hadBefore(f, u, last.Revision), u.lastEnd(), u.back != "" && last.Revision == u.back
	for _, w := range list {
		if w.GoesBack == back && (end == nil || !w.Began.After(*end)) {
			known[w.Node] = true
		}
	}
	if missing := int(last.Nodes) - len(known); missing > 0 {
		return fmt.Sprintf("the work on %d of %d nodes, if there was any: they may have had this revision before; pods replaced since then no longer record it, "+
			"and a node keeps its last 20 operations", missing, last.Nodes)
	}
	return ""
}

// hadBefore returns the nodes that had a revision when an upgrade began: their last operation before was done for it, or all
// of their pods were created before, at the target.
func hadBefore(f *display.Fleet, u *Upgrade, revision string) map[string]bool {
	had := map[string]bool{}
	for i := range f.NodeUpgrades {
		n := &f.NodeUpgrades[i]
		for j := range n.Status.History {
			if h := &n.Status.History[j]; h.StartTime.Time.Before(u.began()) {
				had[n.Name] = h.Revision == revision && h.Phase == topsv1.OperationDone
			}
		}
	}
	if f.Rollout != nil && f.Rollout.Status.Revision == revision && u.Until.IsZero() {
		for node, created := range lastCreated(f) {
			had[node] = had[node] || created.Before(u.began())
		}
	}
	maps.DeleteFunc(had, func(_ string, is bool) bool { return !is })
	return had
}

// lastCreated returns when the newest pod of each node was created that has all pods at the targets.
func lastCreated(f *display.Fleet) map[string]time.Time {
	targets, last, outdated := targetsOf(f.Rollout), map[string]time.Time{}, map[string]bool{}
	for i := range f.Pods {
		pod := &f.Pods[i]
		target, node := targets[setOf(pod)], daemonset.NodeName(pod)
		if target == "" {
			continue
		}
		outdated[node] = outdated[node] || daemonset.RevisionHash(pod) != target
		if created := pod.CreationTimestamp.Time; created.After(last[node]) {
			last[node] = created
		}
	}
	maps.DeleteFunc(last, func(node string, _ time.Time) bool { return outdated[node] })
	return last
}

// targetsOf returns the newest revisions of the DaemonSets of a rollout.
func targetsOf(dro *topsv1.DaemonRollout) map[string]string {
	targets := map[string]string{}
	for _, t := range dro.Status.Targets {
		targets[t.DaemonSet] = t.Hash
	}
	return targets
}

// setOf returns the DaemonSet of a pod as in the status of a rollout, "" if no DaemonSet controls it.
func setOf(pod *corev1.Pod) string {
	if owner := daemonset.Owner(pod); owner != nil {
		return pod.Namespace + "/" + owner.Name
	}
	return ""
}
