package component

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// nfdName is the name of the DaemonSet when the spec has none (decision D12).
	nfdName  = "node-feature-discovery-ds"
	nfdImage = "node-feature-discovery"
	// Names of the objects of nfd (contract statement 49).
	nfdClusterRole        = "nfd-clusterrole"
	nfdClusterRoleBinding = "nfd-clusterrolebinding"
	nfdServiceAccount     = "nfd-service-account"
	// nfdGroup is the API group of NodeFeatureRule.
	nfdGroup = "nfd.k8s-sigs.io"
	// nfdMasterPort is where the worker finds the master, inside the pod.
	nfdMasterPort = 8080
	// nfdUser is nobody: neither container needs a right on the host.
	nfdUser = 65534

	// nfdWorkerOptions makes the worker label GCU nodes as the guide shows
	// them: feature.node.kubernetes.io/pci-1e36.present (components.md 1.0).
	nfdWorkerOptions = `{"sources":{"pci":{"deviceClassWhitelist":["03","0b40","12"],"deviceLabelFields":["vendor"]}}}`
)

// renderNFD renders node-feature-discovery: one DaemonSet whose pods have a
// master and a worker (components.md section 1.1). The image has no
// grpc_health_probe, so the probes are plain TCP.
func renderNFD(spec *topsv1.GcuResourceSpec) []object {
	nfd := spec.NFD
	s := settings{
		name:         cmp.Or(nfd.Name, nfdName),
		namespace:    cmp.Or(nfd.Namespace, defaultNamespace),
		nodeSelector: nfdSelector(nfd),
	}
	volumes, mounts := volumesOf([]hostMount{
		{name: "host-boot", host: "/boot", container: "/host-boot", readOnly: true},
		{name: "host-os-release", host: "/etc/os-release", container: "/host-etc/os-release", readOnly: true},
		{name: "host-sys", host: "/sys", container: "/host-sys", readOnly: true},
		{name: "host-usr-lib", host: "/usr/lib", container: "/host-usr/lib", readOnly: true},
		{name: "source-d", host: "/etc/kubernetes/node-feature-discovery/source.d",
			container: "/etc/kubernetes/node-feature-discovery/source.d", kind: corev1.HostPathDirectoryOrCreate, readOnly: true},
		{name: "features-d", host: featuresDir, container: featuresDir, kind: corev1.HostPathDirectoryOrCreate, readOnly: true},
	})
	ds := daemonSet(s, corev1.PodSpec{
		ServiceAccountName: nfdServiceAccount,
		Tolerations:        onControlPlane(),
		Volumes:            volumes,
		Containers:         []corev1.Container{nfdMaster(nfd.Master), nfdWorker(nfd.Worker, mounts)},
	})
	id := identity{
		namespace: s.namespace, account: nfdServiceAccount, role: nfdClusterRole, binding: nfdClusterRoleBinding, app: s.name,
		rules: []rbacv1.PolicyRule{
			may("get list patch update", "core", "nodes"),
			may("get list watch", nfdGroup, "nodefeaturerules"),
		},
	}
	return []object{id.clusterRole(), id.clusterRoleBinding(), ds, nodeFeatureRuleCRD(s), id.serviceAccount()}
}

// nfdSelector returns the node selector of the one DaemonSet: that of the
// first level when set, else what the two children ask for together, the
// worker's value where they differ (contract statement 20).
func nfdSelector(nfd *topsv1.NFDSpec) map[string]string {
	if len(nfd.NodeSelector) > 0 {
		return nfd.NodeSelector
	}
	selector := map[string]string{}
	for _, child := range []*topsv1.BaseFields{nfd.Master, nfd.Worker} {
		if child != nil {
			maps.Copy(selector, child.NodeSelector)
		}
	}
	if len(selector) == 0 {
		return nil
	}
	return selector
}

func nfdMaster(fields *topsv1.BaseFields) corev1.Container {
	c := nfdContainer("nfd-master", fields)
	c.Args = []string{"-extra-label-ns=enflame.com"}
	c.Ports = []corev1.ContainerPort{{Name: "grpc", ContainerPort: nfdMasterPort, Protocol: corev1.ProtocolTCP}}
	listening := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(nfdMasterPort)}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: listening, InitialDelaySeconds: 5, PeriodSeconds: 10, FailureThreshold: 10}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: listening, InitialDelaySeconds: 10, PeriodSeconds: 10}
	return c
}

func nfdWorker(fields *topsv1.BaseFields, mounts []corev1.VolumeMount) corev1.Container {
	c := nfdContainer("nfd-worker", fields)
	c.Args = []string{"-server=localhost:8080", "-options=" + nfdWorkerOptions}
	c.VolumeMounts = mounts
	return c
}

func nfdContainer(name string, fields *topsv1.BaseFields) corev1.Container {
	s := builtIn{image: nfdImage, env: []corev1.EnvVar{nodeNameEnv()}}.with(fields)
	security := confined()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	security.RunAsNonRoot = ptr.To(true)
	security.RunAsUser = ptr.To[int64](nfdUser)
	return corev1.Container{
		Name:            name,
		Image:           s.image,
		ImagePullPolicy: s.pullPolicy,
		Command:         []string{name},
		Env:             s.env,
		SecurityContext: security,
	}
}
