package upgradeapi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// upgrades serves PUT.
type upgrades struct {
	*resolver
	access Access
	clock  clock.PassiveClock
}

// upgrade applies a blueprint or a spec to a gr, in place or by recreating it (contract
// section 2.10, D8). Only a dry run returns content: the resulting gr (statement 67).
func (u *upgrades) upgrade(ctx context.Context, c call) (any, error) {
	upgrade, err := request.ReadUpgrade(c.body)
	if err != nil {
		return nil, err
	}
	gr, desired, err := u.resolve(ctx, c.name, upgrade)
	if err != nil {
		return nil, err
	}
	if upgrade.Mode != request.ModeRecreate {
		if err := u.refuse(ctx, gr, desired); err != nil {
			return nil, err
		}
		return u.inPlace(ctx, c, gr, desired)
	}
	if err := desired.Recreatable(gr); err != nil {
		return nil, err
	}
	result, err := u.recreate(ctx, c, gr, desired.Recreated(gr))
	return ofDryRun(c, result, err)
}

// inPlace upgrades a gr in place, to versions that were checked: by refuse, or for the nodes of a plan.
func (u *upgrades) inPlace(ctx context.Context, c call, gr *topsv1.GcuResource, desired *request.Desired) (any, error) {
	result, err := u.replaceSpec(ctx, c, gr, desired)
	return ofDryRun(c, result, err)
}

// ofDryRun returns the gr that a dry run would make, and nothing after a change.
func ofDryRun(c call, result *topsv1.GcuResource, err error) (any, error) {
	if err != nil || !c.dryRun {
		return nil, err
	}
	result.SetGroupVersionKind(grKind)
	result.SetManagedFields(nil)
	return result, nil
}

// replaceSpec replaces spec and annotations of the gr in one write.
func (u *upgrades) replaceSpec(ctx context.Context, c call, gr *topsv1.GcuResource, desired *request.Desired) (*topsv1.GcuResource, error) {
	ctx, writer, err := u.writer(ctx, c.user)
	if err != nil {
		return nil, err
	}
	var after *topsv1.GcuResource
	err = u.whileUnchanged(ctx, gr, func(gr *topsv1.GcuResource) error {
		if err := request.Replaceable(gr); err != nil {
			return err
		}
		after = desired.InPlace(gr)
		log.FromContext(ctx).Info("Replacing the spec of GcuResource", "generation", gr.Generation, "dryRun", c.dryRun)
		setAuthor(after, c.user, u.clock.Now())
		return writer.Patch(ctx, after, locked(gr), c.patchOptions()...)
	})
	return after, err
}

// refuse returns an error if the policy of the gr does not allow the versions of the desired spec.
func (u *upgrades) refuse(ctx context.Context, gr *topsv1.GcuResource, desired *request.Desired) error {
	if u.planner == nil {
		return nil
	}
	release, err := u.turnToCheck(ctx)
	if err != nil {
		return err
	}
	defer release()
	why, err := u.planner.Refused(ctx, gr, desired.InPlace(gr))
	if err != nil {
		return fmt.Errorf("checking the versions: %w", err)
	}
	if why != "" {
		return request.Conflict("%s", why)
	}
	return nil
}

// recreate stores the new gr, then deletes the old one; the Recreator does the rest. Once
// stored, the upgrade is accepted and survives a crash (contract section 2.10, D8).
func (u *upgrades) recreate(ctx context.Context, c call, old, gr *topsv1.GcuResource) (*topsv1.GcuResource, error) {
	if err := authorize(ctx, u.access, c, onGr("delete", c.name), onGr("create", c.name)); err != nil {
		return nil, err
	}
	asked, writer, err := u.writer(ctx, c.user)
	if err != nil {
		return nil, err
	}
	setAuthor(gr, c.user, u.clock.Now())
	checked, err := check(asked, writer, gr)
	if err == nil {
		err = remove(asked, writer, old, client.DryRunAll) // admission may protect it
	}
	if err != nil || c.dryRun {
		return checked, err
	}
	if err := u.clearFinished(ctx, c); err != nil {
		return nil, err
	}
	rec := &recreation.Recreation{GcuResource: gr, Replaces: old.UID, Request: c.request, Author: c.user, Accepted: u.clock.Now()}
	stored, err := rec.Object()
	if err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("Storing the new GcuResource, the old one is deleted next", "uid", old.UID)
	err = u.Create(ctx, stored, client.FieldOwner(fieldOwner))
	if denial.IsAlreadyExists(err) {
		return nil, request.Conflict("another upgrade of %s was accepted just now: wait until it is created", c.name)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the new GcuResource: %w", err)
	}
	return nil, u.settleRemoval(ctx, stored, old, remove(asked, writer, old))
}

// settleRemoval returns the answer to an upgrade whose removal of the old gr returned err, nil for none. If the gr may not
// be deleted, and is still there, the stored recreation is forgotten; after another error it is accepted all the same, and the Recreator
// goes on.
func (u *upgrades) settleRemoval(ctx context.Context, stored *topsv1.GcuResourceRecreation, old *topsv1.GcuResource, err error) error {
	switch {
	case err == nil:
		return nil
	case denial.IsConflict(err):
		err = request.Conflict("GcuResource %s was recreated concurrently: review it and send the request again", stored.Name)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || denial.ByAdmission(err):
		now, failed := find(ctx, u, old.Name)
		if failed != nil || now == nil || now.UID != old.UID || now.DeletionTimestamp != nil {
			return nil // perhaps the Recreator of another replica has deleted it
		}
	default:
		log.FromContext(ctx).Error(err, "Deleting the old GcuResource failed, retrying")
		return nil
	}
	if failed := forget(ctx, u, stored); failed != nil {
		return failed
	}
	return err
}

// check validates a gr by a dry-run creation under a generated name, and returns it with
// defaults.
func check(ctx context.Context, writer client.Client, gr *topsv1.GcuResource) (*topsv1.GcuResource, error) {
	checked := gr.DeepCopy()
	checked.Name, checked.GenerateName = "", "check-"
	if err := writer.Create(ctx, checked, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		return nil, err
	}
	checked.ObjectMeta = *gr.ObjectMeta.DeepCopy()
	return checked, nil
}

// clearFinished deletes a recreation whose gr has been created and is still watched.
func (u *upgrades) clearFinished(ctx context.Context, c call) error {
	rec, stored, err := u.recreationOf(ctx, c.name)
	if err != nil || rec == nil || rec.Open() {
		return err // with an open one, storing the next fails
	}
	return forget(ctx, u, stored)
}
