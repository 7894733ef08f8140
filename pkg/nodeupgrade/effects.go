package nodeupgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch

// carryOut makes the changes that were decided and stored, in order, up to the first
// that fails.
func (r *Reconciler) carryOut(ctx context.Context, o *observation, effects []operation.Effect) error {
	for _, e := range effects {
		if err := r.effect(ctx, o, e); err != nil {
			return fmt.Errorf("carrying out %s of operation %s: %w", e.Kind, e.Operation, err)
		}
	}
	return nil
}

func (r *Reconciler) effect(ctx context.Context, o *observation, e operation.Effect) error {
	switch e.Kind {
	case operation.Cordon, operation.Uncordon:
		return r.cordoner().CarryOut(ctx, o.upgrade.Name, e.NodeVersion, e.Operation, e.Change)
	case operation.CloseDevice:
		return r.patchTaints(ctx, o.node, e.Operation, closedTaints(o.node.Spec.Taints, e.Operation))
	case operation.OpenDevice:
		return r.patchTaints(ctx, o.node, e.Operation, openTaints(o.node.Spec.Taints, e.Operation))
	case operation.Evict:
		return r.evict(ctx, o, e)
	case operation.DeletePod:
		return r.deletePod(ctx, o, e)
	case operation.FencePod:
		log.FromContext(ctx).Info("Fencing Pod, its operation ends", "Pod", klog.KRef(e.Pod.Namespace, e.Pod.Name), "operation", e.Operation)
		return r.replacer().Fence(ctx, podOf(e), o.facts.Now, fmt.Sprintf("operation %s ends without replacing the pod", e.Operation))
	}
	return fmt.Errorf("nothing is known of the effect %s", e.Kind)
}

func (r *Reconciler) cordoner() drain.Cordoner { return drain.Cordoner{Client: r.Client, Live: r.Live} }

// patchTaints gives a node other taints, at the resourceVersion at which it was read.
func (r *Reconciler) patchTaints(ctx context.Context, node *corev1.Node, operation string, taints []corev1.Taint) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("encoding taints: %w", err)
	}
	log.FromContext(ctx).Info("Changing the taint of a node", "Node", node.Name, "operation", operation, "taints", len(taints))
	changed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := r.Patch(ctx, changed, client.RawPatch(types.MergePatchType, data), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("patching taints of node %s: %w", node.Name, err)
	}
	return nil
}

// closedTaints are the taints of a node whose device is closed for an operation.
func closedTaints(taints []corev1.Taint, operation string) []corev1.Taint {
	others := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == topsv1.TaintDriverUpgrade })
	return append(others, corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: operation, Effect: corev1.TaintEffectNoSchedule})
}

// openTaints are the taints of a node without that of an operation.
func openTaints(taints []corev1.Taint, operation string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return t.Key == topsv1.TaintDriverUpgrade && t.Value == operation
	})
}

// deletePod deletes a pod as it was named. Its DaemonSet is read again before, past
// the cache: it still owns the pod, by UID, is as it was observed, and leaves the
// replacing to us (invariant S9).
func (r *Reconciler) deletePod(ctx context.Context, o *observation, e operation.Effect) error {
	pod := o.pod(e.Pod.UID)
	if pod == nil {
		return fmt.Errorf("pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, errMoved)
	}
	owner := daemonset.Owner(pod)
	if owner == nil || o.daemonSets[owner.UID] == nil {
		return fmt.Errorf("owner of pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, errMoved)
	}
	ds, unchanged, err := r.replacer().Recheck(ctx, o.daemonSets[owner.UID])
	if err != nil {
		return err
	}
	if !unchanged {
		return fmt.Errorf("DaemonSet %s/%s: %w", pod.Namespace, owner.Name, errMoved)
	}
	log.FromContext(ctx).Info("Deleting Pod", "Pod", klog.KObj(pod), "DaemonSet", klog.KObj(ds), "Node", o.upgrade.Name, "operation", e.Operation)
	deleted, err := r.replacer().Delete(ctx, podOf(e))
	if err == nil && !deleted {
		return fmt.Errorf("pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, errMoved)
	}
	return err
}

// replacer replaces pods.
func (r *Reconciler) replacer() podreplace.Replacer {
	return podreplace.Replacer{Client: r.Client, Live: r.Live}
}

// podOf is the pod that an effect is about, in the version that was recorded.
func podOf(e operation.Effect) podreplace.Pod {
	return podreplace.Pod{Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID, ResourceVersion: e.Pod.ResourceVersion}
}
