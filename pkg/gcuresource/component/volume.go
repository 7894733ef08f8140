package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// hostMount is a path of the host inside a container.
type hostMount struct {
	name        string
	host        string
	container   string
	kind        corev1.HostPathType
	readOnly    bool
	propagation corev1.MountPropagationMode
}

// volumesOf returns the volumes of a pod and the mounts of its container.
func volumesOf(mounts []hostMount) ([]corev1.Volume, []corev1.VolumeMount) {
	var volumes []corev1.Volume
	var inside []corev1.VolumeMount
	for _, m := range mounts {
		source := &corev1.HostPathVolumeSource{Path: m.host}
		if m.kind != corev1.HostPathUnset {
			source.Type = ptr.To(m.kind)
		}
		volumes = append(volumes, corev1.Volume{Name: m.name, VolumeSource: corev1.VolumeSource{HostPath: source}})
		mount := corev1.VolumeMount{Name: m.name, MountPath: m.container, ReadOnly: m.readOnly}
		if m.propagation != "" {
			mount.MountPropagation = ptr.To(m.propagation)
		}
		inside = append(inside, mount)
	}
	return volumes, inside
}

// configVolume returns a volume with the content of a ConfigMap, and its mount.
func configVolume(name, configMap, path string) (corev1.Volume, corev1.VolumeMount) {
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: source}},
		corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
}
