// Package podreplace replaces a pod of a DaemonSet: it deletes the pod, and the DaemonSet
// controller creates the successor. Only this package deletes such pods, for rollouts and for
// operations on nodes alike.
//
//	Recheck  reads the DaemonSet past the cache: it must be unchanged since the
//	         deletion was decided, and OnDelete
//	Delete   deletes exactly this pod, by UID and resourceVersion
//	Fence    writes to a pod that must no longer be deleted, so that a deletion
//	         decided earlier, and possibly still in progress, conflicts
//
// The caller records the pod to be deleted before calling Delete; after a crash in between,
// its successor finds the record, and either deletes that pod or fences it.
package podreplace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/denial"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// Fenced is the type of the condition that a fence sets on a pod. It has no meaning of its
// own.
const Fenced corev1.PodConditionType = "topsops.enflame.com/Fenced"

// ErrChanged means that an object has changed since it was read: observe and decide again.
var ErrChanged = errors.New("changed since it was read")

// Replacer replaces pods.
type Replacer struct {
	// Client writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
}

// Recheck reads a DaemonSet past the cache. It returns what it read, and whether that is the
// observed DaemonSet, unchanged, not being deleted, and OnDelete. A deleted DaemonSet is not
// unchanged. Errors are those of the API server.
func (r Replacer) Recheck(ctx context.Context, observed *appsv1.DaemonSet) (live *appsv1.DaemonSet, unchanged bool, err error) {
	live = &appsv1.DaemonSet{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(observed), live)
	if denial.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading DaemonSet %s/%s past the cache: %w", observed.Namespace, observed.Name, err)
	}
	return live, err == nil && live.UID == observed.UID && live.Generation == observed.Generation && live.DeletionTimestamp == nil &&
		live.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType, nil
}

// Pod returns what Delete and Fence need to know of a pod.
func Pod(namespace, name string, uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: version}}
}

// Delete deletes a pod at its resourceVersion ("" for any), and reports whether it did.
// A pod that is gone, was replaced by another of the same name, or has changed since, is not
// deleted; that is no error.
func (r Replacer) Delete(ctx context.Context, pod *corev1.Pod) (deleted bool, err error) {
	preconditions := client.Preconditions{UID: &pod.UID}
	if pod.ResourceVersion != "" {
		preconditions.ResourceVersion = &pod.ResourceVersion
	}
	err = r.Client.Delete(ctx, pod, preconditions)
	switch {
	case err == nil:
		return true, nil
	case denial.IsGoneOrChanged(err):
		return false, nil
	}
	return false, fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// Fence changes the resourceVersion of a pod, unless it has already changed or the pod is
// gone. It writes a condition with the message why.
func (r Replacer) Fence(ctx context.Context, pod *corev1.Pod, now time.Time, why string) error {
	metadata := map[string]any{"uid": pod.UID}
	if pod.ResourceVersion != "" {
		metadata["resourceVersion"] = pod.ResourceVersion
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata, "status": map[string]any{"conditions": []any{map[string]any{
		"type": Fenced, "status": corev1.ConditionTrue, "lastTransitionTime": metav1.NewTime(now).Rfc3339Copy(), "message": why,
	}}}})
	if err != nil {
		return fmt.Errorf("encoding the fence of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	err = r.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, data))
	if err != nil && !denial.IsGoneOrChanged(err) {
		return fmt.Errorf("fencing Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// IsDenied reports whether the API server refused a request, by its own rules or those of a
// webhook. Errors of its load, or of the network, are no refusals.
func IsDenied(err error) bool {
	if denial.ByAdmission(err) { // whatever code it chose
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500 && !apierrors.IsTooManyRequests(err)
}

// IsDeniedOrBroken reports whether a request was denied, or has a webhook that cannot be called: the error
// is about the object of the request, so that others go on.
func IsDeniedOrBroken(err error) bool { return IsDenied(err) || apierrors.IsInternalError(err) }
