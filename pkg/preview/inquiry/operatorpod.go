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

// operatorPod returns the pod of the active manager, whose node comes last in its wave; empty if unknown. Of
// several managers the active one holds the Lease, which not every user may read.
func operatorPod(ctx context.Context, live client.Reader, namespace string) (corev1.Pod, error) {
	var pods corev1.PodList
	err := live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": topsv1.ManagedBy})
	if err != nil {
		return corev1.Pod{}, fmt.Errorf("listing the pods of the operator: %w", err)
	}
	switch len(pods.Items) {
	case 0:
		return corev1.Pod{}, nil
	case 1:
		return pods.Items[0], nil
	}
	var lease coordinationv1.Lease
	err = live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: LeaseName}, &lease)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && lease.Spec.HolderIdentity == nil {
		return corev1.Pod{}, nil
	}
	if err != nil {
		return corev1.Pod{}, fmt.Errorf("reading the Lease of the operator: %w", err)
	}
	for i := range pods.Items {
		// The holder identity is the host name, which is the pod's name, and an id.
		if strings.HasPrefix(*lease.Spec.HolderIdentity, pods.Items[i].Name+"_") {
			return pods.Items[i], nil
		}
	}
	return corev1.Pod{}, nil
}
