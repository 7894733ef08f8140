package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestTheImagesOfAPodAreAllThatTheKubeletPulls(t *testing.T) {
	image := func(reference string) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference}}}
	}
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Image: "init:1"}}, Containers: []corev1.Container{{Image: "a:1"}, {Image: "init:1"}},
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, image("firmware:1"), image("a:1")},
	}
	if diff := cmp.Diff([]string{"init:1", "a:1", "firmware:1"}, Images(&spec)); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}
