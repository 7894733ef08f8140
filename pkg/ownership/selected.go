package ownership

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ListSelected lists into list what the selector of a DaemonSet selects in its namespace, with any controller:
// pods, or ControllerRevisions. The error names the DaemonSet.
func ListSelected(ctx context.Context, from client.Reader, list client.ObjectList, ds *appsv1.DaemonSet, options ...client.ListOption) error {
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading the selector of DaemonSet %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	if err := from.List(ctx, list, append(options, client.InNamespace(ds.Namespace), client.MatchingLabelsSelector{Selector: selector})...); err != nil {
		return fmt.Errorf("listing what DaemonSet %s/%s selects (%T): %w", ds.Namespace, ds.Name, list, err)
	}
	return nil
}
