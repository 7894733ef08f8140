package inquiry

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// LeaseName is the Lease of the active manager, in its namespace.
const LeaseName = "gcu-operator.topsops.enflame.com"

// operatorNode returns the node of the active manager, which comes last in its wave; "" if unknown. Of
// several managers the active one holds the Lease, which not every user may read.
func operatorNode(ctx context.Context, live client.Reader, namespace string) (string, error) {
	var pods corev1.PodList
	err := live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": topsv1.ManagedBy})
	if err != nil {
		return "", fmt.Errorf("listing the pods of the operator: %w", err)
	}
	switch len(pods.Items) {
	case 0:
		return "", nil
	case 1:
		return pods.Items[0].Spec.NodeName, nil
	}
	var lease coordinationv1.Lease
	err = live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: LeaseName}, &lease)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the Lease of the operator: %w", err)
	}
	for i := range pods.Items {
		// The holder identity is the host name, which is the pod's name, and an id.
		if strings.HasPrefix(*lease.Spec.HolderIdentity, pods.Items[i].Name+"_") {
			return pods.Items[i].Spec.NodeName, nil
		}
	}
	return "", nil
}
