package daemonset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheVersionOfAComponentIsTheTagOfItsFirstImage(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/gcu-driver:1.6.2": "1.6.2", "registry.example:5000/gcu-driver": "latest", "registry.example:5000/gcu-driver:1.6.2": "1.6.2",
		"gcu-driver:1.6.2@sha256:0f": "1.6.2", "registry.example:5000/gcu-driver@sha256:0f": "sha256:0f", "gcu-driver": "latest",
	} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Image: image}, {Image: "sidecar:9"}}, InitContainers: []corev1.Container{{Image: "init:8"}}}
		if got := Version(&spec); got != want {
			t.Errorf("%s is version %q, want %q", image, got, want)
		}
	}
	if got := Version(&corev1.PodSpec{}); got != "" {
		t.Errorf("a pod without a container is version %q", got)
	}
}
