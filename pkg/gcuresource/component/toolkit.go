package component

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// builtInToolkit is the container toolkit, which puts the enflame runtime on
// the node and makes it the default (components.md section 1.3). The body is
// our own design. RUNTIME auto lets the installer find docker or containerd.
func builtInToolkit() builtIn {
	return builtIn{
		name:         "enflame-gcu-docker-plugin",
		image:        "gcu-runtime",
		env:          []corev1.EnvVar{{Name: "RUNTIME", Value: "auto"}},
		nodeSelector: onGCUNodes(),
	}
}

// runtimeInstalled is true once the runtime is on the node and a container
// engine is configured for it.
const runtimeInstalled = "test -x /host/usr/bin/enflame-container-runtime && " +
	"grep -qs enflame /etc/docker/daemon.json /etc/containerd/config.toml /etc/containerd/conf.d/*"

func renderToolkit(spec *topsv1.GcuResourceSpec) []object {
	s := builtInToolkit().with(spec.Toolkit)
	create := corev1.HostPathDirectoryOrCreate
	volumes, mounts := volumesOf([]hostMount{
		{name: "host-root", host: "/", container: "/host", propagation: corev1.MountPropagationHostToContainer},
		{name: "docker-config", host: "/etc/docker", container: "/etc/docker", kind: create},
		{name: "containerd-config", host: "/etc/containerd", container: "/etc/containerd", kind: create},
		{name: "runtime-config", host: "/etc/enflame-container-runtime", container: "/etc/enflame-container-runtime", kind: create},
		{name: "enflame-log", host: "/var/log/enflame", container: "/var/log/enflame", kind: create},
		{name: "run-enflame", host: "/run/enflame", container: "/run/enflame", kind: create},
		{name: "cdi", host: "/var/run/cdi", container: "/var/run/cdi", kind: create},
	})
	main := container(s)
	main.SecurityContext = privileged()
	main.VolumeMounts = mounts
	main.ReadinessProbe = shell(runtimeInstalled, 10, 3)
	return []object{daemonSet(s, corev1.PodSpec{
		HostPID:           true,
		PriorityClassName: priorityNode,
		Tolerations:       everywhere(),
		Volumes:           volumes,
		Containers:        []corev1.Container{main},
	})}
}
