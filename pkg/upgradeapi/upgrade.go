package upgradeapi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// upgrade brings a gr to a blueprint or a spec: in place, or by deleting it and
// creating it again (contract section 2.10, D8). A dry run returns the gr as it
// would be; else there is no content (statement 67).
func (a *API) upgrade(ctx context.Context, c call) (any, error) {
	body, err := upgradeIn(c.body)
	if err != nil {
		return nil, err
	}
	blueprint, err := a.blueprint(c, body)
	if err != nil {
		return nil, err
	}
	gr, err := a.present(ctx, c)
	if err != nil {
		return nil, err
	}
	form, err := a.formOf(ctx, gr, blueprint, body)
	if err != nil {
		return nil, err
	}
	var result *topsv1.GcuResource
	if body.Mode == modeRecreate {
		if body.Spec != nil { // what is no part of the spec stays as it is
			blueprint.Labels, blueprint.Annotations = gr.Labels, gr.Annotations
		}
		result, err = a.recreate(ctx, c, gr, fresh(blueprint))
	} else {
		result, err = a.replaceSpec(ctx, c, gr, form)
	}
	if err != nil || !c.dryRun {
		return nil, err
	}
	result.SetGroupVersionKind(grKind)
	result.SetManagedFields(nil)
	return result, nil
}

// blueprint returns what the gr is to be brought to, nil for what it is.
func (a *API) blueprint(c call, body upgradeBody) (*topsv1.GcuResource, error) {
	if body.File == "" && body.Spec == nil {
		return nil, nil
	}
	if body.Spec != nil {
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: *body.Spec}, nil
	}
	data, err := readBlueprint(a.Blueprints, body.File)
	if err != nil {
		return nil, err
	}
	blueprint, err := parseBlueprint(body.File, data)
	if err != nil {
		return nil, err
	}
	return blueprint, checkBlueprint(body.File, blueprint, c.name)
}

// maxAttempts bounds how often a write is repeated because the operator wrote
// the status meanwhile.
const maxAttempts = 10

// replaceSpec gives the gr another form, spec and annotations, in one write. When
// somebody else changed the spec since gr was read, that is a conflict; when
// only the status or an annotation changed, the write is repeated. A rollback that
// is not done yet would take the new spec back, so it is waited for.
func (a *API) replaceSpec(ctx context.Context, c call, gr *topsv1.GcuResource, form form) (*topsv1.GcuResource, error) {
	generation := gr.Generation
	for range maxAttempts {
		if to, asked := gr.Annotations[topsv1.AnnotationRollbackTo]; asked {
			return nil, conflict("a rollback of %s to %.100q is asked for: wait until it is done", c.name, to)
		}
		after := form(gr)
		log.FromContext(ctx).Info("Replacing the spec of GcuResource", "generation", generation, "dryRun", c.dryRun)
		err := a.Client.Patch(ctx, after, locked(gr), c.patchOptions()...)
		if !apierrors.IsConflict(err) {
			return after, err
		}
		now, err := a.present(ctx, c)
		if err != nil {
			return nil, err
		}
		if now.UID != gr.UID || now.Generation != generation {
			return nil, conflict("GcuResource %s was changed concurrently: review it and send the request again", c.name)
		}
		gr = now
	}
	return nil, conflict("GcuResource %s changes all the time: send the request again", c.name)
}

// recreate stores the new gr, then asks for the deletion of the old one; the
// Recreator does the rest. Once it is stored the upgrade is accepted, whatever
// happens to this process (contract section 2.10, D8).
func (a *API) recreate(ctx context.Context, c call, old, gr *topsv1.GcuResource) (*topsv1.GcuResource, error) {
	if err := a.authorize(ctx, c, "delete", "create"); err != nil {
		return nil, err
	}
	checked, err := a.check(ctx, gr)
	if err != nil || c.dryRun {
		return checked, err
	}
	if err := a.clearFinished(ctx, c); err != nil {
		return nil, err
	}
	rec := &recreation{gr: gr, replaces: old.UID, request: c.request, user: c.user.Username, accepted: a.Clock.Now()}
	stored, err := rec.configMap(a.Namespace)
	if err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("Storing the new GcuResource, the old one is deleted next", "uid", old.UID)
	err = a.Client.Create(ctx, stored, client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil, conflict("another upgrade of %s was accepted just now: wait until it is created", c.name)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the new GcuResource: %w", err)
	}
	err = remove(ctx, a.Client, old)
	if apierrors.IsConflict(err) {
		if err := forget(ctx, a.Client, stored); err != nil {
			return nil, err
		}
		return nil, conflict("GcuResource %s was recreated concurrently: review it and send the request again", c.name)
	}
	if err != nil { // accepted all the same: the Recreator repeats it
		log.FromContext(ctx).Error(err, "Deleting the old GcuResource, it is tried again")
	}
	return nil, nil
}

// check lets the API server check a gr that is to be created, under a name that
// is free, and returns it as it would be.
func (a *API) check(ctx context.Context, gr *topsv1.GcuResource) (*topsv1.GcuResource, error) {
	checked := gr.DeepCopy()
	checked.Name, checked.GenerateName = "", "check-"
	if err := a.Client.Create(ctx, checked, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		return nil, err
	}
	checked.ObjectMeta = *gr.ObjectMeta.DeepCopy()
	return checked, nil
}

// clearFinished takes away a recreation whose gr was created and is still
// watched: the next one takes its place.
func (a *API) clearFinished(ctx context.Context, c call) error {
	rec, stored, err := a.recreationOf(ctx, c.name)
	if err != nil || rec == nil || rec.open() {
		return err // an open one makes the next step fail
	}
	return forget(ctx, a.Client, stored)
}
