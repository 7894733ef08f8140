package request

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
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
		return Conflict("a rollback of %s to %.100q has already been requested: wait until it is done, or remove annotation %s", gr.Name, to, topsv1.AnnotationRollbackTo)
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

// Restorable returns the revision that a rollback of a gr restores, by the rule of the operator for the same word, and whether the gr
// has already been asked for it. It returns an error if there is none, or while another rollback is pending; one that
// cannot be carried out is replaced.
func Restorable(gr *topsv1.GcuResource, history *revision.History, to string) (target string, asked bool, err error) {
	found, failure := history.Target(to)
	switch {
	case failure != nil && to == topsv1.RollbackToPrevious:
		return "", false, Conflict("no earlier spec of %s is kept", gr.Name)
	case failure != nil:
		return "", false, Refuse(statusNotFound, "revision %.100q of %s not found: GET its revisions", to, gr.Name)
	case !readable(found):
		return "", false, Conflict("revision %s of %s cannot be read: name another one", found.Name, gr.Name)
	}
	pending, is := gr.Annotations[topsv1.AnnotationRollbackTo]
	if !is {
		return found.Name, false, nil
	}
	if first, failure := history.Target(pending); pending != found.Name && failure == nil && readable(first) && !refused(gr) {
		return "", false, Replaceable(gr)
	}
	return found.Name, pending == found.Name, nil
}

// refused reports whether the API server refuses the spec that a pending rollback of a gr restores.
func refused(gr *topsv1.GcuResource) bool {
	return slices.ContainsFunc(gr.Status.Conditions, func(c topsv1.ActionCondition) bool {
		return c.Action == topsv1.ActionRollback && c.Reason == revision.ReasonRefusedRevision
	})
}

// readable reports whether a revision holds a spec.
func readable(r *appsv1.ControllerRevision) bool {
	_, failure := revision.Spec(r)
	return failure == nil
}
