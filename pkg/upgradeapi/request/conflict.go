package request

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Changeable returns an error unless a gr may be changed: it is not being deleted.
func Changeable(gr *topsv1.GcuResource) error {
	if gr.DeletionTimestamp != nil {
		return Conflict("GcuResource %s is being deleted: wait until it is gone", gr.Name)
	}
	return nil
}

// Replaceable returns an error unless the spec of a gr may be replaced: a pending rollback
// would revert the new one.
func Replaceable(gr *topsv1.GcuResource) error {
	if to, asked := gr.Annotations[topsv1.AnnotationRollbackTo]; asked {
		return Conflict("a rollback of %s to %.100q has already been requested: wait until it is done", gr.Name, to)
	}
	return nil
}

// Recreatable returns an error unless a gr may be deleted and created again as desired: everything is replaced at once,
// and a pending rollback would be lost.
func (d *Desired) Recreatable(gr *topsv1.GcuResource) error {
	if d.Limit != nil {
		return BadRequest("the blueprint limits the upgrade to %.100q (annotation %s): mode %s replaces everything at once, it cannot be limited", d.Limit, topsv1.AnnotationUpgradeOnly, ModeRecreate)
	}
	return Replaceable(gr)
}

// Unchanged returns an error if the spec of a gr, the limit of its upgrade or the plan that it follows has changed since before
// was read.
func Unchanged(before, now *topsv1.GcuResource) error {
	if !planfile.Unchanged(before, now) {
		return Conflict("GcuResource %s was changed concurrently: review it and send the request again", now.Name)
	}
	return nil
}

// Restorable returns an error unless a gr can be rolled back to a revision; kept are the names of
// all its revisions, including the current one.
func Restorable(gr, to string, kept []string) error {
	switch {
	case to == topsv1.RollbackToPrevious && len(kept) < 2:
		return Conflict("no earlier spec of %s is kept", gr)
	case to != topsv1.RollbackToPrevious && !slices.Contains(kept, to):
		return Refuse(statusNotFound, "revision %.100q of %s not found: GET its revisions", to, gr)
	}
	return nil
}
