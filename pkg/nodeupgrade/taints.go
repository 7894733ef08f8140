package nodeupgrade

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch

// taintWriter closes and opens the device of a node by a taint.
type taintWriter struct{ client client.Client }

// set replaces the taints of a node at the resourceVersion that was read.
func (w taintWriter) set(ctx context.Context, node *corev1.Node, operation string, taints []corev1.Taint) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("encoding taints: %w", err)
	}
	log.FromContext(ctx).Info("Changing the taint of a node", "Node", node.Name, "operation", operation, "taints", len(taints))
	changed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := w.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, data), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("patching taints of node %s: %w", node.Name, err)
	}
	return nil
}
