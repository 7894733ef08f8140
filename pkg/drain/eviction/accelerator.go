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

// usesAccelerator reports whether a pod uses a GCU: a container or init container has one of
// the resources or requests devices from the runtime, or a hostPath volume is one of the
// devices.
func usesAccelerator(pod *corev1.Pod, p *Policy) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if hasResource(c.Resources.Limits, p.resources) || hasResource(c.Resources.Requests, p.resources) ||
				slices.ContainsFunc(c.Env, asksForDevices) {
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

func asksForDevices(v corev1.EnvVar) bool {
	return v.Name == visibleDevices && v.ValueFrom == nil && !slices.Contains(noDevices, v.Value)
}
