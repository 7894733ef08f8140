package observed

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/globaltask"
)

// reasonRevisionPending is a transient reason to block: the DaemonSet controller has not observed a template yet.
const reasonRevisionPending = "RevisionPending"

// reasonNameTaken blocks a group whose DaemonRollout would have the same key as another group's.
const reasonNameTaken = "RolloutNameTaken"

// AwaitsGlobalTask returns which of some global tasks of a plan is awaited, nil if all are done. A failed task waits for a
// user.
func AwaitsGlobalTask(p *globaltask.Progress) *rollout.Blocked {
	switch {
	case p.IsDone():
		return nil
	case p.Failed:
		return &rollout.Blocked{Reason: topsv1.ReasonGlobalTaskFailed, Message: p.Message}
	}
	return &rollout.Blocked{Reason: topsv1.ReasonAwaitingGlobalTask, Message: p.Message}
}

// Transient reports whether a reason to block resolves itself. DaemonSets of a gr that disagree do when all of them
// have its annotations; otherwise the gr reports which annotation to remove.
func Transient(b *rollout.Blocked) bool {
	return b.Reason == reasonRevisionPending || b.Reason == daemonset.ReasonSettingsDisagree
}

// NotAccepted returns what a user has to correct before nodes start: a setting, or what a global task before the nodes
// needs; nil for nothing.
func NotAccepted(in *rollout.Input) *rollout.Blocked {
	switch {
	case in.Blocked != nil && !Transient(in.Blocked):
		return in.Blocked
	case in.Beforehand != nil && in.Beforehand.Reason == topsv1.ReasonGlobalTaskFailed:
		return in.Beforehand
	}
	return nil
}

// rejected blocks a group whose target was rejected by a rollback, until a user resumes the rollout or the target
// changes; nil if it was not rejected. The gcuresource controller deploys another revision of a gr in its place. The
// template of a DaemonSet without a gr is restored once only, even if someone applies the rejected one again.
func rejected(r *topsv1.DaemonRollout, kind, target string, members []Member) *rollout.Blocked {
	rb := r.Status.Rollback
	switch {
	case rb == nil || r.LastResume() != r.Status.Resumed:
		return nil
	case HasRejected(rb, members), ReplacesRejected(rb, members) && target == rb.From: // the cache of revisions may be older than that of DaemonSets
		return &rollout.Blocked{Reason: reasonRevisionPending, Message: fmt.Sprintf(
			"waiting until revision %s is deployed in place of the rejected revision %s", rb.GcuResourceRevision, rb.RejectedRevision)}
	case kind == KindDaemonSet && rb.RestoredTime != nil && target == rb.From:
		return &rollout.Blocked{Reason: topsv1.ReasonRevisionRejected, Message: "this template was rejected by a rollback: roll out another one, or resume: " + rb.Message}
	}
	return nil
}

// HasRejected reports whether a DaemonSet of a gr comes from the revision of its spec that was rejected.
func HasRejected(rb *topsv1.RolloutRollback, members []Member) bool {
	return namesRejected(rb, topsv1.AnnotationRevision, members)
}

// ReplacesRejected reports whether a DaemonSet of a gr comes from another revision in place of the one
// that was rejected.
func ReplacesRejected(rb *topsv1.RolloutRollback, members []Member) bool {
	return namesRejected(rb, topsv1.AnnotationRejectedRevision, members)
}

// isDeployedInPlace reports whether all DaemonSets of a gr, except those that leave, come from another revision in place
// of the rejected one.
func isDeployedInPlace(rb *topsv1.RolloutRollback, members []Member) bool {
	return ReplacesRejected(rb, members) && !slices.ContainsFunc(members, func(m Member) bool {
		return !daemonset.IsLeaving(m.DaemonSet) && m.DaemonSet.Annotations[topsv1.AnnotationRejectedRevision] != rb.RejectedRevision
	})
}

// namesRejected reports whether an annotation of a DaemonSet names the rejected revision. DaemonSets that leave are
// ignored: they may have the annotation of an earlier spec.
func namesRejected(rb *topsv1.RolloutRollback, annotation string, members []Member) bool {
	return rb.RejectedRevision != "" && slices.ContainsFunc(members, func(m Member) bool {
		return !daemonset.IsLeaving(m.DaemonSet) && m.DaemonSet.Annotations[annotation] == rb.RejectedRevision
	})
}
