package upgradeapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// cluster reads and writes the API server without a cache.
type cluster struct {
	client.Client
	// namespace is the operator's own.
	namespace string
	// impersonator writes for callers; nil means that the cluster does.
	impersonator *Impersonator
}

// writer returns what writes grs and DaemonRollouts for a user.
func (c *cluster) writer(ctx context.Context, user authenticationv1.UserInfo) (context.Context, client.Client, error) {
	if c.impersonator == nil {
		return ctx, c.Client, nil
	}
	return c.impersonator.Writer(ctx, user)
}

// ownedBy lists the objects of a kind that a gr controls; labels alone would include those
// of an earlier gr of the same name. A missing gr is an error.
func (c *cluster) ownedBy(ctx context.Context, name string, kind schema.GroupVersionKind, options ...client.ListOption) (*unstructured.UnstructuredList, error) {
	gr, err := c.object(ctx, grKind, client.ObjectKey{Name: name})
	if err != nil {
		return nil, err
	}
	list, err := c.list(ctx, kind, options...)
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !daemonset.IsOf(&o, gr) })
	return list, nil
}

// object gets an object without managedFields (contract statement 68). It returns the API
// server's error unwrapped.
func (c *cluster) object(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.Get(ctx, key, object); err != nil {
		return nil, err
	}
	object.SetManagedFields(nil)
	return object, nil
}

// list lists objects as object does; the API server sorts them by namespace and name.
func (c *cluster) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, options...); err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		list.Items[i].SetManagedFields(nil)
	}
	return list, nil
}

// revisions lists the ControllerRevisions of a gr.
func (c *cluster) revisions(ctx context.Context, name string) (*unstructured.UnstructuredList, error) {
	return c.ownedBy(ctx, name, revisionKind, client.InNamespace(c.namespace), client.MatchingLabels{topsv1.LabelGcuResource: name})
}

// present returns a gr that may be changed: it is neither being deleted nor being recreated.
func (c *cluster) present(ctx context.Context, name string) (*topsv1.GcuResource, error) {
	gr, err := c.notRecreating(ctx, name)
	if err != nil {
		return nil, err
	}
	return gr, request.Changeable(gr)
}

// maxAttempts is how often a write is tried when the operator writes the status meanwhile.
const maxAttempts = 10

// whileUnchanged writes a gr. A concurrent change of the spec is a conflict; after one of the status or an annotation the write is
// retried with the gr as it is then.
func (c *cluster) whileUnchanged(ctx context.Context, gr *topsv1.GcuResource, write func(*topsv1.GcuResource) error) error {
	for range maxAttempts {
		if err := write(gr); !denial.IsConflict(err) {
			return err
		}
		now, err := c.present(ctx, gr.Name)
		if err == nil {
			err = request.Unchanged(gr, now)
		}
		if err != nil {
			return err
		}
		gr = now
	}
	return request.Conflict("GcuResource %s keeps changing: send the request again", gr.Name)
}

// notRecreating returns a gr that no upgrade is recreating.
func (c *cluster) notRecreating(ctx context.Context, name string) (*topsv1.GcuResource, error) {
	if err := c.free(ctx, name); err != nil {
		return nil, err
	}
	gr := &topsv1.GcuResource{}
	return gr, c.Get(ctx, client.ObjectKey{Name: name}, gr)
}

// free returns an error while an upgrade is recreating a gr.
func (c *cluster) free(ctx context.Context, name string) error {
	rec, _, err := c.recreationOf(ctx, name)
	if err != nil {
		return err
	}
	return rec.Conflict()
}

// recreationOf returns the stored recreation of a gr, nil if there is none.
func (c *cluster) recreationOf(ctx context.Context, name string) (*recreation.Recreation, *topsv1.GcuResourceRecreation, error) {
	stored := &topsv1.GcuResourceRecreation{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, stored)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the recreation of %s: %w", name, err)
	}
	rec, err := recreation.Read(stored)
	return rec, stored, err
}

// setAuthor records who asked for an upgrade by a change of a gr, and when. Users who may write the gr may write
// that too: it is no proof.
func setAuthor(gr *topsv1.GcuResource, user authenticationv1.UserInfo, now time.Time) {
	for key, value := range authorship(user, askedby.Upgrade, now) {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, key, value.(string))
	}
}

// authorship returns the annotations that say who asked for a change; none if the user is not known.
func authorship(user authenticationv1.UserInfo, verb string, now time.Time) map[string]any {
	annotations := map[string]any{}
	if user.Username != "" {
		annotations[topsv1.AnnotationLastAuthor] = user.Username
	}
	if value := (askedby.Change{Time: now, Verb: verb, User: user.Username}).Value(); value != "" {
		annotations[topsv1.AnnotationAskedBy] = value
	}
	return annotations
}

// remove deletes a gr by its UID: no other gr of the same name.
func remove(ctx context.Context, c client.Client, gr *topsv1.GcuResource, options ...client.DeleteOption) error {
	if applied := (&client.DeleteOptions{}).ApplyOptions(options); len(applied.DryRun) == 0 {
		log.FromContext(ctx).Info("Deleting GcuResource", "uid", gr.UID)
	}
	options = append(options, client.Preconditions{UID: &gr.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return ignoreNotFound(c.Delete(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr.Name}}, options...), "deleting GcuResource %s", gr.Name)
}

// forget deletes a stored recreation unless it changed since it was read.
func forget(ctx context.Context, c client.Client, stored *topsv1.GcuResourceRecreation) error {
	err := c.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
	return ignoreNotFound(err, "deleting GcuResourceRecreation %s", stored.Name)
}

// find returns a gr, nil if there is none.
func find(ctx context.Context, c client.Reader, name string) (*topsv1.GcuResource, error) {
	gr := &topsv1.GcuResource{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, gr)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading GcuResource %s: %w", name, err)
	}
	return gr, nil
}

// lastMessage returns the message of the newest condition of a gr.
func lastMessage(gr *topsv1.GcuResource) string {
	if n := len(gr.Status.Conditions); n > 0 {
		return gr.Status.Conditions[n-1].Message
	}
	return ""
}

// locked returns a patch that fails if the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func ignoreNotFound(err error, format string, args ...any) error {
	if err == nil || denial.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
