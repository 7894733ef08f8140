package daemonset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Images returns the images of a pod without duplicates, those of init containers first.
func Images(spec *corev1.PodSpec) []string {
	var images []string
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if image := containers[i].Image; !slices.Contains(images, image) {
				images = append(images, image)
			}
		}
	}
	return images
}

// PullSecrets returns the names of the pull secrets of a pod.
func PullSecrets(spec *corev1.PodSpec) []string {
	var names []string
	for _, s := range spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return names
}
