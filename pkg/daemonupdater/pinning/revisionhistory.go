package pinning

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
)

// RevisionHistory is what is known of the revisions of one DaemonSet.
type RevisionHistory struct {
	DaemonSet *appsv1.DaemonSet
	Revisions []*appsv1.ControllerRevision
	// Target is the hash of the newest revision; Had is the hash with which the node was last ready, "" if unknown.
	Target, Had string
	// Good is the hash of the last known good revision, "" if there is none; Since is when it became good.
	Good  string
	Since time.Time
	// RolledBack: the group was rolled back. If that changed this DaemonSet, what was created after its target was rejected.
	RolledBack bool
	// Floor is the earliest time at which an allowed revision became good, nil for no limit
	// (failure.rollbackNotBefore of the policy).
	Floor *time.Time
}

// EarlierRevision returns the revision that a node goes back to from the target: the one with which it was last
// ready, else the last known good one, else the one before the target. Without one, why says so.
func EarlierRevision(h *RevisionHistory) (hash, why string) {
	for _, hash := range []string{h.Had, h.Good, h.previous()} {
		if hash == "" || hash == h.Target || h.isRejected(daemonset.RevisionOf(h.Revisions, hash)) || !gating.IsKept(h.DaemonSet, h.Revisions, hash) {
			continue
		}
		if h.Floor != nil && h.since(hash).Before(*h.Floor) {
			return "", fmt.Sprintf("revision %s is older than failure.rollbackNotBefore of the policy", hash)
		}
		return hash, ""
	}
	return "", fmt.Sprintf("no revision of DaemonSet %s/%s before %s is kept", h.DaemonSet.Namespace, h.DaemonSet.Name, h.Target)
}

// isRejected reports whether a revision was rejected: a rollback numbers the target anew, but it is older.
func (h *RevisionHistory) isRejected(r *appsv1.ControllerRevision) bool {
	target := daemonset.RevisionOf(h.Revisions, h.Target)
	return h.RolledBack && r != nil && target != nil && r.CreationTimestamp.After(target.CreationTimestamp.Time)
}

// previous returns the revision before the target, "" if there is none.
func (h *RevisionHistory) previous() (hash string) {
	target := daemonset.RevisionOf(h.Revisions, h.Target)
	var number int64
	for _, r := range h.Revisions {
		if target != nil && r.Revision < target.Revision && r.Revision > number && !h.isRejected(r) {
			hash, number = daemonset.RevisionHash(r), r.Revision
		}
	}
	return hash
}

// since returns when the last known good revision became good, and when any other was created; zero if unknown.
func (h *RevisionHistory) since(hash string) time.Time {
	if hash == h.Good {
		return h.Since
	}
	if r := daemonset.RevisionOf(h.Revisions, hash); r != nil {
		return r.CreationTimestamp.Time
	}
	return time.Time{}
}

// FloorOf returns the floor of a policy, nil for none.
func FloorOf(policy *topsv1.UpgradePolicy) *time.Time {
	if policy == nil || policy.Spec.Failure == nil || policy.Spec.Failure.RollbackNotBefore == nil {
		return nil
	}
	return &policy.Spec.Failure.RollbackNotBefore.Time
}

// RollsBack reports whether a policy rolls a failed node back alone.
func RollsBack(policy *topsv1.UpgradePolicy) bool {
	return policy != nil && policy.Spec.Failure != nil && policy.Spec.Failure.Action == topsv1.FailureRollbackNode
}
