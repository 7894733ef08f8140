package eviction

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// visibleDevices is the variable by which a container requests devices from the container
// runtime without a resource; noDevices are the values that request none (docs/components.md
// 1.3).
const visibleDevices = "ENFLAME_VISIBLE_DEVICES"

var noDevices = []string{"", "none", "void"}

// Claims is what is known of the ResourceClaims of a pod.
type Claims struct {
	// Drivers of the devices that are allocated to them.
	Drivers []string
	// Unknown is why one of them could not be read, "" for none.
	Unknown string
}

// ClaimsOf returns the names of the ResourceClaims of a pod, in its namespace. One that is yet to
// be generated from its template has no name.
func ClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		if claim.ResourceClaimName != nil {
			names = append(names, *claim.ResourceClaimName)
			continue
		}
		generated := slices.IndexFunc(pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == claim.Name })
		if generated >= 0 && pod.Status.ResourceClaimStatuses[generated].ResourceClaimName != nil {
			names = append(names, *pod.Status.ResourceClaimStatuses[generated].ResourceClaimName)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// usesAccelerator reports whether a pod uses a GCU: a container or init container has one of
// the resources or requests devices from the runtime, a hostPath volume is one of the devices,
// or one of the drivers has allocated devices to the pod's ResourceClaims.
func usesAccelerator(pod *corev1.Pod, drivers []string, p *Policy) bool {
	if slices.ContainsFunc(drivers, func(driver string) bool { return matchesAny(driver, p.drivers) }) {
		return true
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if hasResource(c.Resources.Limits, p.resources) || hasResource(c.Resources.Requests, p.resources) ||
				slices.ContainsFunc(c.Env, requestsDevices) {
				return true
			}
		}
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && matchesAny(path.Clean(v.HostPath.Path), p.devices)
	})
}

func hasResource(list corev1.ResourceList, patterns []string) bool {
	for name, quantity := range list {
		if !quantity.IsZero() && matchesAny(string(name), patterns) {
			return true
		}
	}
	return false
}

func requestsDevices(v corev1.EnvVar) bool {
	return v.Name == visibleDevices && v.ValueFrom == nil && !slices.Contains(noDevices, v.Value)
}
