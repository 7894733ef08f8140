package component

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// builtInDriver is the GCU kernel driver (components.md section 1.2). The pod
// installs the driver on its node; the body is our own design, no public
// manifest exists.
func builtInDriver() builtIn {
	return builtIn{
		name:         "enflame-gcu-driver",
		image:        "gcu-driver",
		env:          []corev1.EnvVar{{Name: "WITH_REBOOT", Value: "false"}},
		nodeSelector: onGCUNodes(),
	}
}

// driverLoaded is true once the kernel reports the version of the driver.
const driverLoaded = "test -s /sys/module/enflame/version"

func renderDriver(spec *topsv1.GcuResourceSpec) []object {
	s := builtInDriver().with(spec.Driver)
	volumes, mounts := volumesOf([]hostMount{
		{name: "host-root", host: "/", container: "/host", propagation: corev1.MountPropagationHostToContainer},
		{name: "lib-modules", host: "/lib/modules", container: "/lib/modules"},
		{name: "usr-src", host: "/usr/src", container: "/usr/src"},
		{name: "dev", host: "/dev", container: "/dev"},
		{name: "sys", host: "/sys", container: "/sys"},
		{name: "var-log", host: "/var/log", container: "/var/log"},
		{name: "run-enflame", host: "/run/enflame", container: "/run/enflame",
			kind: corev1.HostPathDirectoryOrCreate, propagation: corev1.MountPropagationBidirectional},
	})
	main := container(s)
	main.SecurityContext = privileged()
	main.VolumeMounts = mounts
	// Compiling the modules may take 20 minutes.
	main.StartupProbe = shell(driverLoaded, 10, 120)
	main.ReadinessProbe = shell(driverLoaded, 10, 3)
	return []object{daemonSet(s, corev1.PodSpec{
		HostPID:           true,
		PriorityClassName: priorityNode,
		Tolerations:       everywhere(),
		Volumes:           volumes,
		Containers:        []corev1.Container{main},
	})}
}
