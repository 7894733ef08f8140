package report

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// MustPrecede reports whether a new status has to be stored before anything else is done, because
// its ledger differs. Other changes may be stored later.
func MustPrecede(stored, next *topsv1.DaemonRolloutStatus) bool {
	return stored.Revision != next.Revision || stored.Resumed != next.Resumed || len(stored.Failed) != len(next.Failed) ||
		!allStored(next.InFlight, stored.InFlight, stored.Queued) || !allStored(next.Queued, stored.Queued) || !keepsTargets(stored, next)
}

// allStored reports whether every slot is in one of the stored lists. That a slot was given back, or
// a queued node was started, may be stored later.
func allStored(slots []topsv1.NodeSlot, stored ...[]topsv1.NodeSlot) bool {
	byNode := map[string]*topsv1.NodeSlot{}
	for _, list := range stored {
		for i := range list {
			byNode[list[i].Node] = &list[i]
		}
	}
	for i := range slots {
		s, old := &slots[i], byNode[slots[i].Node]
		if old == nil || old.UID != s.UID || old.Revision != s.Revision || old.Turn != s.Turn ||
			old.Operation != s.Operation || old.PodUID != s.PodUID || old.PodVersion != s.PodVersion {
			return false
		}
	}
	return true
}

// keepsTargets reports whether two statuses have the same settled revisions, last known good revision, pins and rollback.
func keepsTargets(a, b *topsv1.DaemonRolloutStatus) bool {
	return equality.Semantic.DeepEqual(a.Pinned, b.Pinned) && equality.Semantic.DeepEqual(a.Settled, b.Settled) && equality.Semantic.DeepEqual(a.LastKnownGood, b.LastKnownGood) && equality.Semantic.DeepEqual(a.Rollback, b.Rollback)
}

// OnlyMoved reports whether only a few nodes made progress as expected: no condition changed, and the
// numbers of skipped, held and failed nodes are the same.
func OnlyMoved(before, after *topsv1.DaemonRolloutStatus) bool {
	const share = 12 // fewer than a twelfth are few
	for i := range after.Conditions {
		if c := &after.Conditions[i]; changed(before, after, c.Type) != nil {
			return false
		}
	}
	return before.Total == after.Total && before.SkippedNodes == after.SkippedNodes && before.HeldNodes == after.HeldNodes &&
		before.FailedNodes == after.FailedNodes && before.MaxUnavailable == after.MaxUnavailable &&
		max(after.Updated-before.Updated, before.Updated-after.Updated) < after.Total/share
}

// changed returns a condition whose status or reason differs from before, nil if neither does.
func changed(before, after *topsv1.DaemonRolloutStatus, conditionType string) *metav1.Condition {
	was := meta.FindStatusCondition(before.Conditions, conditionType)
	is := meta.FindStatusCondition(after.Conditions, conditionType)
	if is == nil || (was != nil && was.Reason == is.Reason && was.Status == is.Status) {
		return nil
	}
	return is
}
