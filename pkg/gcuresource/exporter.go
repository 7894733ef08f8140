package gcuresource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	ds := daemonSet(s, corev1.PodSpec{
		HostNetwork:       true,
		DNSPolicy:         corev1.DNSClusterFirstWithHostNet,
		PriorityClassName: priorityNode,
		Tolerations:       onControlPlane(),
		Volumes:           volumes,
		Containers: []corev1.Container{{
			Name:            s.name,
			Image:           s.image,
			ImagePullPolicy: s.pullPolicy,
			Args:            []string{"--web.listen-address=:9400"},
			Env:             s.env,
			Ports: []corev1.ContainerPort{{
				Name: exporterPortName, ContainerPort: exporterPort, HostPort: exporterPort, Protocol: corev1.ProtocolTCP,
			}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2000Mi")},
			},
			SecurityContext: privileged(),
			VolumeMounts:    mounts,
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(exporterPort)}},
				PeriodSeconds: 10,
			},
		}},
	})
	return []object{ds, exporterService(s)}
}

func exporterService(s settings) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      s.name,
			Namespace: s.namespace,
			Labels:    map[string]string{labelName: s.name},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true",
				"prometheus.io/path":   "/metrics",
				"prometheus.io/port":   "9400",
			},
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: map[string]string{labelName: s.name},
			Ports: []corev1.ServicePort{{
				Name: exporterPortName, Port: exporterPort, NodePort: exporterNodePort,
				TargetPort: intstr.FromInt32(exporterPort), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}
