// Package podreplace replaces a pod of a DaemonSet: it is deleted, and the DaemonSet
// controller creates its successor. This is the only place that deletes such pods, for
// rollouts and for the jobs of nodes alike.
//
//	Recheck  reads the DaemonSet past the cache: it must be as it was when the
//	         deletion was decided, and OnDelete
//	Delete   deletes this very pod, by UID and resourceVersion
//	Fence    writes to a pod that is not to be deleted any more, so that a deletion
//	         decided earlier, which may still be under way, fails on its resourceVersion
//
// Who decides records which pod is to be deleted before calling Delete; a process that
// dies in between finds the record, and either deletes that pod or fences it.
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

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// Fenced is the type of the condition that a fence leaves on a pod. It means nothing.
const Fenced corev1.PodConditionType = "topsops.enflame.com/Fenced"

// ErrChanged says that an object is not as it was read: who decides looks again.
var ErrChanged = errors.New("changed since it was read")

// Replacer replaces pods.
type Replacer struct {
	// Client writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
}

// Recheck reads a DaemonSet past the cache. It returns what it read, and whether that is
// the DaemonSet that was observed, neither changed nor being deleted, and leaves the
// replacement of its pods to others (OnDelete). A DaemonSet that is gone is not unchanged.
// The error is that of the API server.
func (r Replacer) Recheck(ctx context.Context, observed *appsv1.DaemonSet) (live *appsv1.DaemonSet, unchanged bool, err error) {
	live = &appsv1.DaemonSet{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(observed), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading DaemonSet %s/%s past the cache: %w", observed.Namespace, observed.Name, err)
	}
	return live, err == nil && live.UID == observed.UID && live.Generation == observed.Generation && live.DeletionTimestamp == nil &&
		live.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType, nil
}

// Delete deletes a pod in the version that is named, "" for any version, and reports whether it did. A pod
// that is gone, that was replaced by another of its name, or that was written to since, is
// not deleted; this is no error.
func (r Replacer) Delete(ctx context.Context, pod topsv1.NamedPod) (deleted bool, err error) {
	preconditions := client.Preconditions{UID: &pod.UID}
	if pod.ResourceVersion != "" {
		preconditions.ResourceVersion = &pod.ResourceVersion
	}
	err = r.Client.Delete(ctx, objectOf(pod), preconditions)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return false, nil
	}
	return false, fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// Fence gives a pod another resourceVersion, unless it has one already or is gone. The
// condition that it writes says why.
func (r Replacer) Fence(ctx context.Context, pod topsv1.NamedPod, now time.Time, why string) error {
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
	err = r.Client.Status().Patch(ctx, objectOf(pod), client.RawPatch(types.StrategicMergePatchType, data))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("fencing Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func objectOf(pod topsv1.NamedPod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}
