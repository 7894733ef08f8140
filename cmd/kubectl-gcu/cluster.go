package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

const (
	// operatorNamespace is the namespace in the manifests of config/.
	operatorNamespace = "kube-system"
	// fieldManager of all writes.
	fieldManager = "kubectl-gcu"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// cluster is the API server, with the rights of the user.
type cluster struct {
	client.Client
	config *rest.Config
	// namespace of the operator.
	namespace string
	// check, if it is not nil, sees each object before it is changed; its error prevents that.
	check func(client.Object) error
}

// mayChange returns the error of check.
func (c *cluster) mayChange(o client.Object) error {
	if c.check == nil {
		return nil
	}
	return c.check(o)
}

// connection connects to the cluster as the flags of kubectl say.
type connection struct {
	flags *genericclioptions.ConfigFlags
}

func (c connection) connect() (*cluster, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 100
	config.UserAgent = fieldManager + "/" + version
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	cl, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	return &cluster{Client: cl, config: config, namespace: cmp.Or(*c.flags.Namespace, operatorNamespace)}, nil
}

// policyDenied is in the errors of admission policies.
const policyDenied = "ValidatingAdmissionPolicy"

// explain adds to an error of the API server which right is missing, or that the operator is
// not installed. verb was tried in namespace, "" for all.
func explain(err error, verb, namespace string) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the operator is not installed on this cluster: %w", err)
	}
	if !apierrors.IsForbidden(err) {
		return err
	}
	if denial.ByAdmission(err) { // it says itself what is missing
		return &failure{exitForbidden, err}
	}
	what, where, flag := "this", "cluster-wide", "-A"
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil {
		d := status.ErrStatus.Details
		what = strings.TrimSuffix(d.Kind+"."+d.Group, ".")
	}
	if namespace != "" {
		where, flag = "in namespace "+namespace, "-n "+namespace
	}
	return &failure{exitForbidden, fmt.Errorf("missing permission: %s %s %s; kubectl auth can-i %s %s %s says whether you have it: %w",
		verb, what, where, verb, what, flag, err)}
}

// leaveOut turns a missing permission into a note; it returns other errors.
func leaveOut(notShown *[]string, what string, err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitForbidden {
		*notShown = append(*notShown, what+": "+f.Error())
		return nil
	}
	return err
}

// read gets one object.
func (c *cluster) read(ctx context.Context, namespace, name string, o client.Object) error {
	return explain(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o), "get", namespace)
}

// all lists objects; namespace "" means all namespaces.
func (c *cluster) all(ctx context.Context, namespace string, l client.ObjectList, options ...client.ListOption) error {
	return explain(c.List(ctx, l, append(options, client.InNamespace(namespace))...), "list", namespace)
}

// object is a pointer to a kind.
type object[T any] interface {
	*T
	client.Object
}

// namesOf returns the names of objects.
func namesOf[T any, P object[T]](objects []T) []string {
	names := make([]string, 0, len(objects))
	for i := range objects {
		names = append(names, P(&objects[i]).GetName())
	}
	return names
}

// retryBackoff returns how often and when a write is retried that failed because the operator wrote in between.
func retryBackoff() wait.Backoff {
	return wait.Backoff{Steps: 10, Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.2}
}

// change gets an object, lets edit modify it, and patches the difference with its
// resourceVersion as precondition; on a conflict it starts over. edit returns false if there
// is nothing to change. The patch says who asked.
func change[T any, P object[T]](ctx context.Context, c *cluster, namespace, name string, edit func(P) (bool, error)) error {
	return retry.OnError(retryBackoff(), denial.IsConflict, func() error {
		o := P(new(T))
		if err := c.read(ctx, namespace, name, o); err != nil {
			return err
		}
		if err := c.mayChange(o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		changed, err := edit(o)
		if err != nil || !changed {
			return err
		}
		anonymous := o.DeepCopyObject().(client.Object)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return explain(tryWithRequester(c.recordRequester(ctx, before, o), o, anonymous, func(o client.Object) error {
			return c.Patch(ctx, o, patch, client.FieldOwner(fieldManager))
		}), "patch", namespace)
	})
}

// recordRequester adds to a changed object who asked for the change, for the record of the rollout. It reports whether
// it did: it does not if the change is not to an operating annotation, or if the API server does not report who
// the user is.
func (c *cluster) recordRequester(ctx context.Context, before, after client.Object) bool {
	verb := askedby.VerbOf(before.GetAnnotations(), after.GetAnnotations())
	if verb == "" {
		return false
	}
	at := time.Now()
	if upgrade, is := after.(*topsv1.NodeUpgrade); is && verb == askedby.Hold {
		for _, h := range daemonset.HoldsOf(upgrade) {
			if h.By == daemonset.ByAdministrator {
				at = h.Since // with the time of a hold, it names the holder
			}
		}
	}
	value := c.requesterAnnotation(ctx, verb, at)
	if value == "" {
		return false
	}
	annotations := after.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[topsv1.AnnotationAskedBy] = value
	after.SetAnnotations(annotations)
	return true
}

// tryWithRequester writes an object that names who asked for the change, and without that if the policies of an older
// version of the operator deny it.
func tryWithRequester(isNamed bool, named, anonymous client.Object, write func(client.Object) error) error {
	err := write(named)
	if isNamed && apierrors.IsForbidden(err) && strings.Contains(err.Error(), policyDenied) {
		return write(anonymous)
	}
	return err
}

// requesterAnnotation returns the annotation asked-by for a change, "" if the user is not known.
func (c *cluster) requesterAnnotation(ctx context.Context, verb string, at time.Time) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "" // an API server before 1.28, or one without the role system:basic-user
	}
	return askedby.Change{Time: at, Verb: verb, User: review.Status.UserInfo.Username}.Value()
}

// resource connects and returns the named gr, or the only one.
func (c connection) resource(ctx context.Context, args []string) (*cluster, *topsv1.GcuResource, error) {
	cl, err := c.connect()
	if err != nil {
		return nil, nil, err
	}
	gr, err := cl.resource(ctx, args)
	return cl, gr, err
}

// resource returns the named gr, or the only one.
func (c *cluster) resource(ctx context.Context, args []string) (*topsv1.GcuResource, error) {
	if len(args) > 0 {
		gr := &topsv1.GcuResource{}
		if err := c.read(ctx, "", args[0], gr); apierrors.IsNotFound(err) {
			return nil, refused("there is no gr %s: kubectl get gr lists them", args[0])
		} else if err != nil {
			return nil, err
		}
		return gr, nil
	}
	grs, err := c.resources(ctx, nil)
	if err != nil {
		return nil, err
	}
	if len(grs) != 1 {
		return nil, usageError("there are %s: say which (%s)", message.Count(len(grs), "gr"), message.Names(namesOf(grs)))
	}
	return &grs[0], nil
}

// resources returns the named gr, or all.
func (c *cluster) resources(ctx context.Context, args []string) ([]topsv1.GcuResource, error) {
	if len(args) > 0 {
		gr, err := c.resource(ctx, args)
		if err != nil {
			return nil, err
		}
		return []topsv1.GcuResource{*gr}, nil
	}
	var l topsv1.GcuResourceList
	if err := c.all(ctx, "", &l); err != nil {
		return nil, err
	}
	if len(l.Items) == 0 {
		return nil, refused("there is no gr on this cluster: kubectl create -f creates one")
	}
	return l.Items, nil
}

// changeable refuses to change a gr that is being deleted: the operator only tears it down.
func changeable(gr metav1.Object) error {
	if gr.GetDeletionTimestamp() != nil {
		return refused("gr %s is being deleted", gr.GetName())
	}
	return nil
}

// rollout returns the DaemonRollout of a gr, nil if there is none.
func (c *cluster) rollout(ctx context.Context, gr string) (*topsv1.DaemonRollout, error) {
	dro := &topsv1.DaemonRollout{}
	err := c.read(ctx, c.namespace, gr, dro)
	if apierrors.IsNotFound(err) || err == nil && !dro.BelongsTo(topsv1.GcuResourceKind, gr) {
		return nil, nil
	}
	return dro, err
}

// hasStrategy reports whether a gr has an update strategy, with which it gets a DaemonRollout.
func hasStrategy(gr metav1.Object) bool { return display.StrategyOf(gr.GetAnnotations()) != "" }

// daemonSets returns the DaemonSets of a gr.
func (c *cluster) daemonSets(ctx context.Context, gr *topsv1.GcuResource) ([]appsv1.DaemonSet, error) {
	var l appsv1.DaemonSetList
	err := c.all(ctx, "", &l, client.MatchingLabels{topsv1.LabelGcuResource: gr.Name})
	return slices.DeleteFunc(l.Items, func(ds appsv1.DaemonSet) bool { return !daemonset.IsOf(&ds, gr) }), err
}

// unseenRollout returns why a gr lacks a DaemonRollout that it should have, when rollout has not found one; "" if it should have none.
// Without a DaemonSet there is nothing to roll out.
func (c *cluster) unseenRollout(ctx context.Context, gr *topsv1.GcuResource) (string, error) {
	if !hasStrategy(gr) || gr.DeletionTimestamp != nil {
		return "", nil
	}
	sets, err := c.daemonSets(ctx, gr)
	if err != nil || len(sets) == 0 {
		return "", err
	}
	return fmt.Sprintf("there is no DaemonRollout of gr %s in namespace %s: it has not been made yet, or the operator is in another namespace: name that with -n",
		gr.Name, c.namespace), nil
}

// noRollout returns the refusal of what needs the DaemonRollout of a gr, which rollout has not found.
func (c *cluster) noRollout(ctx context.Context, gr *topsv1.GcuResource) error {
	if !hasStrategy(gr) {
		return refused("gr %s has no rollout: no annotation %s", gr.Name, topsv1.AnnotationUpdateStrategy)
	}
	unseen, err := c.unseenRollout(ctx, gr)
	if err != nil {
		return err
	}
	return refused("%s", cmp.Or(unseen, fmt.Sprintf("no rollout of gr %s is found in namespace %s", gr.Name, c.namespace)))
}

// noteUnseen adds to the status of a gr that the rollout which it should have is not found, if that is so.
func (c *cluster) noteUnseen(ctx context.Context, gr *topsv1.GcuResource, rollout *topsv1.DaemonRollout, s *display.Status) error {
	if rollout != nil {
		return nil
	}
	unseen, err := c.unseenRollout(ctx, gr)
	if unseen != "" {
		s.WithoutRollout(unseen)
	}
	return leaveOut(&s.NotShown, "the rollout", err)
}

// revisions returns the ControllerRevisions of a gr, possibly also those of an earlier gr of
// the same name.
func (c *cluster) revisions(ctx context.Context, gr string) ([]appsv1.ControllerRevision, error) {
	var l appsv1.ControllerRevisionList
	err := c.all(ctx, c.namespace, &l, client.MatchingLabels{topsv1.LabelGcuResource: gr})
	return l.Items, err
}

// inForce returns a gr as it is deployed: with an earlier spec while its own is rejected by a rollback in its rollout, which
// may be nil.
func (c *cluster) inForce(ctx context.Context, gr *topsv1.GcuResource, rollout *topsv1.DaemonRollout) (*topsv1.GcuResource, error) {
	if rollout == nil || rollout.Status.Rollback == nil {
		return gr, nil
	}
	kept, err := ownership.KeptSpecs(ctx, c, c.namespace, gr)
	if err != nil {
		return nil, explain(err, "list", c.namespace)
	}
	as, _, err := kept.InForce(gr, rollout)
	return as, err
}

// predictor predicts upgrades, with the rights of the user.
func (c *cluster) predictor() inquiry.Predictor {
	return inquiry.Predictor{Reader: c, Live: c, Namespace: c.namespace, Clock: time.Now}
}
