package daemonset

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// VariableOfResources is the variable of the device plugin's container that lists further names under
// which the plugin offers cards (docs/components.md).
const VariableOfResources = "CUSTOM_REGISTER_RESOURCE"

// FurtherResources returns the resources that the containers of a device plugin name in VariableOfResources,
// nil for none.
func FurtherResources(spec *corev1.PodSpec) (names []corev1.ResourceName) {
	for i := range spec.Containers {
		for _, v := range spec.Containers[i].Env {
			if v.Name != VariableOfResources {
				continue
			}
			for name := range strings.SplitSeq(v.Value, ",") {
				if name = strings.TrimSpace(name); name != "" {
					names = append(names, corev1.ResourceName(name))
				}
			}
		}
	}
	return names
}
