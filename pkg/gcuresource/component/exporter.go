package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// exporterPort is where the exporter listens on its node.
	exporterPort = 9400
	// exporterNodePort is where its Service answers on every node (contract statement 59).
	exporterNodePort = 30940
	exporterPortName = "exporterport"
)

// builtInExporter is the Prometheus exporter of the cards (components.md section 1.5).
func builtInExporter() builtIn {
	return builtIn{name: "enflame-gcu-exporter", image: "gcu-exporter", nodeSelector: onGCUNodes()}
}

// libefml are the two host paths of the GCU management library: a symlink and
// the directory it leads into.
func libefml() []hostMount {
	return []hostMount{
		{name: "libefml", host: "/usr/lib/libefml.so", container: "/usr/lib/libefml.so", kind: corev1.HostPathFile, readOnly: true},
		{name: "efsmi", host: "/usr/local/efsmi", container: "/usr/local/efsmi", kind: corev1.HostPathDirectory, readOnly: true},
	}
}

func renderExporter(spec *topsv1.GcuResourceSpec) []object {
	s := builtInExporter().with(spec.Exporter)
	volumes, mounts := volumesOf(append([]hostMount{
		{name: "sys", host: "/sys", container: "/sys", readOnly: true},
		{name: "lock", host: "/var/lock", container: "/var/lock", kind: corev1.HostPathDirectoryOrCreate},
		{name: "pod-resources", host: "/var/lib/kubelet/pod-resources", container: "/var/lib/kubelet/pod-resources", readOnly: true},
	}, libefml()...))
	main := container(s)
	main.Args = []string{"--web.listen-address=:9400"}
	main.Ports = []corev1.ContainerPort{{
		Name: exporterPortName, ContainerPort: exporterPort, HostPort: exporterPort, Protocol: corev1.ProtocolTCP,
	}}
	main.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2000Mi")},
	}
	main.SecurityContext = privileged()
	main.VolumeMounts = mounts
	main.ReadinessProbe = listens(exporterPort)
	ds := daemonSet(s, corev1.PodSpec{
		HostNetwork:       true,
		DNSPolicy:         corev1.DNSClusterFirstWithHostNet,
		PriorityClassName: priorityNode,
		Tolerations:       onControlPlane(),
		Volumes:           volumes,
		Containers:        []corev1.Container{main},
	})
	return []object{ds, exporterService(s)}
}

// exporterService makes the metrics of every node reachable on every node.
func exporterService(s settings) *corev1.Service {
	p := port(exporterPortName, exporterPort, exporterPort)
	p.NodePort = exporterNodePort
	svc := service(s.namespace, s.name, s.name, p)
	svc.Annotations = map[string]string{
		"prometheus.io/scrape": "true",
		"prometheus.io/path":   "/metrics",
		"prometheus.io/port":   "9400",
	}
	return svc
}
