package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get

// readClaims reads the ResourceClaims on which the scope of a drain depends, by the UIDs of their
// pods. Pods may share a claim, and one that does not exist has no devices.
func readClaims(ctx context.Context, live client.Reader, pods []corev1.Pod, p eviction.Policy) map[types.UID]eviction.Claims {
	all := map[types.UID]eviction.Claims{}
	for i := range pods {
		pod := &pods[i]
		if !p.NeedsClaims(pod) {
			continue
		}
		var of eviction.Claims
		for _, name := range eviction.ClaimsOf(pod) {
			drivers, err := readClaim(ctx, live, types.NamespacedName{Namespace: pod.Namespace, Name: name})
			if err != nil {
				of.Unknown = fmt.Sprintf("reading its ResourceClaim %s: %v", name, err)
			}
			of.Drivers = append(of.Drivers, drivers...)
		}
		all[pod.UID] = of
	}
	return all
}

// readClaim returns the drivers of the devices that are allocated to a ResourceClaim.
func readClaim(ctx context.Context, live client.Reader, key types.NamespacedName) ([]string, error) {
	var claim resourcev1.ResourceClaim
	if err := live.Get(ctx, key, &claim); err != nil {
		if noClaim(err) {
			return nil, nil
		}
		return nil, err
	}
	if claim.Status.Allocation == nil {
		return nil, nil
	}
	var drivers []string
	for i := range claim.Status.Allocation.Devices.Results {
		drivers = append(drivers, claim.Status.Allocation.Devices.Results[i].Driver)
	}
	return drivers, nil
}

// noClaim reports whether the API server has answered that a claim does not exist. One that does
// not serve ResourceClaims answers 404 too, but not in its own words.
func noClaim(err error) bool {
	status, ok := err.(apierrors.APIStatus) // a wrapped one is about discovery
	return ok && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Name != "" &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
