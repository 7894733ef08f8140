package component

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// builtInDevicePlugin is the Kubernetes device plugin for whole cards, in its
// base variant (components.md section 1.4). The enflame runtime gives it the
// devices, so it needs no privilege.
func builtInDevicePlugin() builtIn {
	return builtIn{
		name:  "enflame-gcu-k8s-plugin",
		image: "gcu-plugin",
		env: []corev1.EnvVar{
			nodeNameEnv(),
			{Name: "ENFLAME_VISIBLE_DEVICES", Value: "all"},
		},
		nodeSelector: onGCUNodes(),
	}
}

func renderDevicePlugin(spec *topsv1.GcuResourceSpec) []object {
	s := builtInDevicePlugin().with(devicePlugin(spec))
	volumes, mounts := volumesOf([]hostMount{
		{name: "device-plugins", host: "/var/lib/kubelet/device-plugins", container: "/var/lib/kubelet/device-plugins"},
	})
	main := container(s)
	main.SecurityContext = confined()
	main.VolumeMounts = mounts
	return []object{daemonSet(s, corev1.PodSpec{
		PriorityClassName: priorityNode,
		Tolerations: append(onControlPlane(),
			corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "enflame.com/gcu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		),
		Volumes:    volumes,
		Containers: []corev1.Container{main},
	})}
}
