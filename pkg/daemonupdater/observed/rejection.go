package observed

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// rejected blocks a group whose target was rejected by a rollback, until a person resumes or another
// target comes; nil if it was not. The gcuresource controller deploys another revision of a gr in its
// place; the template of a DaemonSet of no gr was set back once, and whoever sets it again is not
// fought.
func (s *State) rejected(target string) *rollout.Blocked {
	rb := s.Rollout.Status.Rollback
	switch {
	case rb == nil || s.Rollout.Annotations[topsv1.AnnotationResume] != s.Rollout.Status.Resumed:
		return nil
	case s.HasRejected():
		return &rollout.Blocked{Reason: reasonRevisionPending, Message: fmt.Sprintf(
			"waiting until %s is deployed in place of %s, which is rejected", rb.GcuResourceRevision, rb.RejectedRevision)}
	case s.Group.Kind == KindDaemonSet && rb.RestoredTime != nil && target == rb.From:
		return &rollout.Blocked{Reason: topsv1.ReasonRevisionRejected, Message: "this template is rejected, roll out another one or resume: " + rb.Message}
	}
	return nil
}

// HasRejected reports whether a DaemonSet of a gr comes from the revision of its spec that was rejected.
func (s *State) HasRejected() bool { return s.namesRejected(topsv1.AnnotationRevision) }

// ReplacesRejected reports whether a DaemonSet of a gr comes from another revision in place of the one
// that was rejected.
func (s *State) ReplacesRejected() bool { return s.namesRejected(topsv1.AnnotationRejectedRevision) }

// namesRejected reports whether an annotation of a DaemonSet names the rejected revision. DaemonSets that
// leave may have that of an earlier spec.
func (s *State) namesRejected(annotation string) bool {
	rb := s.Rollout.Status.Rollback
	return rb != nil && rb.RejectedRevision != "" && slices.ContainsFunc(s.Members, func(m Member) bool {
		return !daemonset.IsLeaving(m.DaemonSet) && m.DaemonSet.Annotations[annotation] == rb.RejectedRevision
	})
}
