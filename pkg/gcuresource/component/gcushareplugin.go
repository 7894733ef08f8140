package component

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GcusharePluginRole names the ClusterRole of gcusharePlugin, its binding and
// its account, whatever the DaemonSet is called.
const GcusharePluginRole = "gcushare-device-plugin"

const (
	// defaultMemoryUnit is in GiB (contract statement 27).
	defaultMemoryUnit = "1"
	// gcushareLogs is where both parts of gcushare write (decision D19).
	gcushareLogs = "/var/log/enflame/gcushare"
)

// builtInGcusharePlugin is the device plugin for shared cards (components.md
// section 1.8). The plugin of 2022 reads MEMORY_UNIT; that of 2025 knows no
// unit, it cuts each card into SLICE_COUNT slices (decision D17).
func builtInGcusharePlugin(memoryUnit string) builtIn {
	return builtIn{
		name:  GcusharePluginRole,
		image: "gcushare-device-plugin",
		env: []corev1.EnvVar{
			nodeNameEnv(),
			{Name: "KUBECONFIG", Value: "/etc/kubernetes/kubelet.conf"},
			{Name: "LOG_DEBUG", Value: "false"},
			{Name: "MEMORY_UNIT", Value: memoryUnit},
			{Name: "SLICE_COUNT", Value: "6"},
		},
		nodeSelector: onGCUNodes(),
	}
}

func renderGcusharePlugin(spec *topsv1.GcuResourceSpec) []object {
	share := spec.GcusharePlugin
	unit := share.MemoryUnit
	if unit == "" {
		unit = defaultMemoryUnit
	}
	s := builtInGcusharePlugin(unit).with(&share.BaseFields)
	// Its nodes are named by a label, beside what the spec selects.
	s.nodeSelector = maps.Clone(s.nodeSelector)
	s.nodeSelector[topsv1.LabelGcushare] = "true"
	volumes, mounts := volumesOf([]hostMount{
		{name: "device-plugins", host: "/var/lib/kubelet/device-plugins", container: "/var/lib/kubelet/device-plugins"},
		{name: "gcushare-log", host: gcushareLogs, container: gcushareLogs, kind: corev1.HostPathDirectoryOrCreate},
		{name: "topscloud", host: "/etc/topscloud", container: "/etc/topscloud", kind: corev1.HostPathDirectoryOrCreate},
	})
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("300Mi")}
	main := container(s)
	main.Command = []string{"gcushare-device-plugin", "--slice-count=$(SLICE_COUNT)"}
	main.Resources = corev1.ResourceRequirements{Requests: resources, Limits: resources}
	main.VolumeMounts = mounts
	ds := daemonSet(s, corev1.PodSpec{
		ServiceAccountName: GcusharePluginRole,
		HostNetwork:        true,
		DNSPolicy:          corev1.DNSClusterFirstWithHostNet,
		PriorityClassName:  priorityNode,
		Tolerations:        onControlPlane(),
		Volumes:            volumes,
		Containers:         []corev1.Container{main},
	})
	id := identity{
		namespace: s.namespace, account: GcusharePluginRole, role: GcusharePluginRole, binding: GcusharePluginRole, app: s.name,
		rules: []rbacv1.PolicyRule{
			may("get list watch update patch delete", "core", "nodes nodes/proxy configmaps"),
			may("update patch", "core", "nodes/status"),
			may("get list watch update patch", "core", "pods"),
			may("create patch", "core", "events"),
		},
	}
	return []object{id.clusterRole(), id.clusterRoleBinding(), ds, id.serviceAccount()}
}
