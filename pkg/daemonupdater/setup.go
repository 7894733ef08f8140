package daemonupdater

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// SetupWithManager adds the controller with its watches, and the cache indexes it needs: pods and
// ControllerRevisions by the UID of their controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.groupStates = newGroupStates(r.Ahead)
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), object, controllerUID, indexByController); err != nil {
			return fmt.Errorf("indexing %T by controller: %w", object, err)
		}
	}
	err := r.watches().Add(builder.TypedControllerManagedBy[observed.Group](mgr).Named("daemonupdater")).
		WithOptions(controller.TypedOptions[observed.Group]{RateLimiter: watch.RateLimiter()}).
		WithLogConstructor(r.logger(mgr.GetLogger())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller daemonupdater: %w", err)
	}
	return nil
}

func (r *Reconciler) watches() watch.Groups {
	w := watch.Groups{Reader: r.Client, Namespace: r.Namespace, Changed: &r.changed, Clock: r.Clock, GateChanged: r.GateChanged}
	if r.Notices != nil {
		w.Woken = r.Notices.Woken()
	}
	return w
}

// logger returns a function that makes the logger of a pass, which names the group in every line.
// The UID of a gr comes from the cache: it is empty if the gr is gone.
func (r *Reconciler) logger(base logr.Logger) func(*observed.Group) logr.Logger {
	return func(g *observed.Group) logr.Logger {
		controller := []any{"controller", "daemonupdater"}
		if g == nil {
			return base.WithValues(controller...)
		}
		if g.Kind != observed.KindGcuResource {
			return base.WithValues(g.Kind, klog.KRef(g.Namespace, g.Name)).WithValues(controller...)
		}
		var gr topsv1.GcuResource
		_ = r.Get(context.Background(), client.ObjectKey{Name: g.Name}, &gr, client.UnsafeDisableDeepCopy) // without it, the log has only the name
		return base.WithValues(logging.GcuResource(g.Name, gr.UID)...).WithValues(controller...)
	}
}
