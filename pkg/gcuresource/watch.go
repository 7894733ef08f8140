package gcuresource

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/agentbudget"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// SetupWithManager registers the controller with the manager, whose scheme must know client-go's
// kinds and api/v1. The cache holds DaemonSets, Deployments, Jobs, pods, nodes,
// ControllerRevisions, NodeUpgrades, DaemonRollouts and ClusterRoleBindings in full, and the metadata of
// Namespaces, CustomResourceDefinitions, ClusterRoles and metadataKinds; managedFields may be stripped. It
// returns an error if a watch cannot be set up.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil {
		r.Client = mgr.GetClient()
	}
	if r.APIReader == nil {
		r.APIReader = mgr.GetAPIReader()
	}
	if r.Recorder == nil {
		r.Recorder = mgr.GetEventRecorder(topsv1.ManagedBy)
	}
	if r.Namespace == "" {
		r.Namespace = metav1.NamespaceSystem
	}
	if err := r.cache.open(mgr); err != nil {
		return err
	}
	to := requester{r.Client}
	return watchOwned(ctrl.NewControllerManagedBy(mgr), to).
		Named("gcuresource").
		WithOptions(retryOptions()).
		For(&topsv1.GcuResource{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.Funcs{UpdateFunc: finalizersChanged}))).
		Watches(&topsv1.GcuResource{}, handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(
			predicate.GenerationChangedPredicate{})).
		WatchesMetadata(kindOf("apiextensions.k8s.io", "CustomResourceDefinition"), handler.EnqueueRequestsFromMapFunc(to.ofKept)).
		WatchesMetadata(kindOf(rbacv1.GroupName, "ClusterRole"), handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(installed)).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(installed)).
		WatchesMetadata(kindOf("", "Namespace"), handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: deletionChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(to.ofWorkload), builder.WithPredicates(
			r.cache.counted(), predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(to.ofWorkload)).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(
			r.cache.counted(), predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&topsv1.NodeUpgrade{}, r.ofHosts(to), builder.WithPredicates(predicate.Funcs{UpdateFunc: hostChanged})).
		Watches(&topsv1.DaemonRollout{}, handler.EnqueueRequestsFromMapFunc(ofRollout), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: rolloutChanged})).
		WithLogConstructor(passLogger(mgr.GetLogger(), r.Client)).
		Complete(r)
}

// ofHosts enqueues every gr for a change of a Host, within the budget of the agent that writes it.
// Beyond the budget the event is counted later, so that no pass reads all NodeUpgrades again before that.
func (r *Reconciler) ofHosts(to requester) handler.EventHandler {
	return agentbudget.Handler(r.now, func(ctx context.Context, o client.Object, wait time.Duration) []reconcile.Request {
		r.cache.events.addHostsAt(r.now().Add(wait))
		return to.all(ctx, o)
	})
}

// passLogger returns a function that makes the logger of a pass, which names the gr in every
// line. The uid comes from the cache: it is empty if the gr is gone.
func passLogger(base logr.Logger, from client.Reader) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		controller := []any{"controller", "gcuresource"}
		if request == nil {
			return base.WithValues(controller...)
		}
		gr := &topsv1.GcuResource{}
		_ = from.Get(context.Background(), request.NamespacedName, gr, client.UnsafeDisableDeepCopy) // if it is missing, the name must suffice
		return base.WithValues(logging.GcuResource(request.Name, gr.UID)...).WithValues(controller...)
	}
}

// watchOwned watches the objects that grs own. Another gr may be waiting for the deletion of a
// workload.
func watchOwned(b *builder.Builder, to requester) *builder.Builder {
	for _, workload := range []client.Object{&appsv1.DaemonSet{}, &appsv1.Deployment{}, &batchv1.Job{}} {
		b = b.Owns(workload).Watches(workload, handler.EnqueueRequestsFromMapFunc(to.all), builder.WithPredicates(goes))
	}
	for _, kind := range metadataKinds {
		b = b.Owns(kindOf(kind.Group, kind.Kind), builder.OnlyMetadata)
	}
	return b
}

// kindOf returns an empty metadata object of a kind with version v1.
func kindOf(group, kind string) *metav1.PartialObjectMetadata {
	return component.Ref{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}}.Metadata()
}
