package daemonset

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Images returns the images of a pod without duplicates, those of init containers first, those of volumes last.
func Images(spec *corev1.PodSpec) (images []string) {
	add := func(image string) {
		if image != "" && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			add(containers[i].Image)
		}
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference)
		}
	}
	return images
}

// Version returns the version of a component by its pod: the tag of the image of its first
// container without a digest, the digest if there is no tag, latest for neither.
func Version(spec *corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	image, digest, _ := strings.Cut(spec.Containers[0].Image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") { // else that of a port
		return image[colon+1:]
	}
	if digest != "" {
		return digest
	}
	return "latest"
}

// PullSecrets returns the names of the pull secrets of a pod.
func PullSecrets(spec *corev1.PodSpec) []string {
	var names []string
	for _, s := range spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return names
}
