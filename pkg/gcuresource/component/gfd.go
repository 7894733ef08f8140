package component

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// featuresDir is where gfd hands its labels to the worker of nfd.
const featuresDir = "/etc/kubernetes/node-feature-discovery/features.d"

// builtInGFD is GCU feature discovery (components.md section 1.6).
func builtInGFD() builtIn {
	return builtIn{
		name:         "enflame-gcu-feature-discovery",
		image:        "gcu-gfd",
		env:          []corev1.EnvVar{nodeNameEnv()},
		nodeSelector: onGCUNodes(),
	}
}

func renderGFD(spec *topsv1.GcuResourceSpec) []object {
	s := builtInGFD().with(spec.GFD)
	volumes, mounts := volumesOf(append([]hostMount{
		{name: "features-d", host: featuresDir, container: featuresDir, kind: corev1.HostPathDirectoryOrCreate},
		{name: "sys", host: "/sys", container: "/sys", readOnly: true},
		{name: "topscloud", host: "/etc/topscloud", container: "/etc/topscloud", kind: corev1.HostPathDirectoryOrCreate},
	}, libefml()...))
	main := container(s)
	main.SecurityContext = privileged()
	main.VolumeMounts = mounts
	return []object{daemonSet(s, corev1.PodSpec{
		PriorityClassName: priorityNode,
		Tolerations:       onControlPlane(),
		Volumes:           volumes,
		Containers:        []corev1.Container{main},
	})}
}
