package gcuresource

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// requester maps events to the grs to reconcile.
type requester struct{ client.Reader }

// ofLabel maps an object to the gr that its label names.
func ofLabel(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[topsv1.LabelGcuResource]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// ofKept maps an object that is kept when its gr is deleted to every gr: any may apply it.
func (r requester) ofKept(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[topsv1.LabelComponent] == "" {
		return nil
	}
	return r.all(ctx, o)
}

// ofWorkload maps a pod or a revision to the gr of its workload: by its label if it belongs to a
// Deployment or a Job, otherwise by its DaemonSet. If the DaemonSet is gone, any gr may be
// waiting for the pod to go.
func (r requester) ofWorkload(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[topsv1.LabelGcuResource] != "" {
		return ofLabel(ctx, o)
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != component.DaemonSetKind.Kind {
		return nil
	}
	ds := &appsv1.DaemonSet{}
	err := r.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, ds, client.UnsafeDisableDeepCopy)
	if err != nil || ds.UID != owner.UID {
		return r.all(ctx, o)
	}
	return ofLabel(ctx, ds)
}

// all maps any event to every gr.
func (r requester) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing GcuResources for a watch event")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(grs.Items))
	for i := range grs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: grs.Items[i].Name}})
	}
	return requests
}

// ofRollout maps a rollout to its gr.
func ofRollout(_ context.Context, object client.Object) []reconcile.Request {
	if rollout, ok := object.(*topsv1.DaemonRollout); ok && rollout.Spec.TargetRef.Kind == topsv1.GcuResourceKind {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: rollout.Spec.TargetRef.Name}}}
	}
	return nil
}
