package daemonset

import (
	"bytes"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// VariableOfResources is the variable of the device plugin's container that lists further names under
// which the plugin offers cards (docs/components.md).
const VariableOfResources = "CUSTOM_REGISTER_RESOURCE"

// variableOfShares is the variable of the container of gcusharePlugin that says how many shares it makes of each card.
const variableOfShares = "SLICE_COUNT"

// SharesPerCard returns how many shares the containers of gcusharePlugin make of each card, 0 if they do not say.
func SharesPerCard(spec *corev1.PodSpec) (shares int64) {
	for i := range spec.Containers {
		for _, v := range spec.Containers[i].Env {
			if n, err := strconv.ParseInt(v.Value, 10, 32); v.Name == variableOfShares && err == nil {
				shares = max(n, 0)
			}
		}
	}
	return shares
}

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

// FurtherResourcesOf returns the resources that a revision of a device plugin names, nil for none. One that cannot be read names
// none. Only those with names are decoded.
func FurtherResourcesOf(revision *appsv1.ControllerRevision) []corev1.ResourceName {
	if !bytes.Contains(revision.Data.Raw, []byte(VariableOfResources)) {
		return nil
	}
	template, err := TemplateOf(revision)
	if err != nil {
		return nil
	}
	return FurtherResources(&template.Spec)
}
