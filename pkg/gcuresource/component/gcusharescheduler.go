package component

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GcushareSchedulerRole names the ClusterRole of gcushareScheduler and
// everything else of it, whatever the Deployment is called.
const GcushareSchedulerRole = "gcushare-scheduler-extender"

const (
	// gcushareSchedulerPort is where it answers inside the cluster, and
	// gcushareSchedulerTarget where its pod listens (components.md section 1.9).
	gcushareSchedulerPort   = 32766
	gcushareSchedulerTarget = 12345
	// gcushareSchedulerConfig is the directory of its configuration.
	gcushareSchedulerConfig = "/etc/kubernetes/gcushare"
)

// gcushareSchedulerYAML makes it a second scheduler, which pods ask for by name.
// The default scheduler and its manifest on the control plane stay untouched.
const gcushareSchedulerYAML = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: gcushare-scheduler
  resourceNamespace: %NAMESPACE%
profiles:
- schedulerName: gcushare-scheduler
  plugins:
    filter:
      enabled:
      - name: GCUShareSchedulerPlugin
    reserve:
      enabled:
      - name: GCUShareSchedulerPlugin
`

// builtInGcushareScheduler schedules pods on shared cards (components.md
// section 1.9), in its form of 2025.
func builtInGcushareScheduler() builtIn {
	return builtIn{
		name:  GcushareSchedulerRole,
		image: GcushareSchedulerRole,
		env:   []corev1.EnvVar{{Name: "PORT", Value: "12345"}},
	}
}

func renderGcushareScheduler(spec *topsv1.GcuResourceSpec) []object {
	s := builtInGcushareScheduler().with(spec.GcushareScheduler)
	volumes, mounts := volumesOf([]hostMount{
		{name: "gcushare-log", host: gcushareLogs, container: gcushareLogs, kind: corev1.HostPathDirectoryOrCreate},
		{name: "topscloud", host: "/etc/topscloud", container: "/etc/topscloud", kind: corev1.HostPathDirectoryOrCreate},
	})
	config, mount := configVolume("config", GcushareSchedulerRole, gcushareSchedulerConfig)
	main := container(s)
	main.Args = []string{"--config=" + gcushareSchedulerConfig + "/scheduler.yaml"}
	main.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: gcushareSchedulerTarget, Protocol: corev1.ProtocolTCP}}
	main.ReadinessProbe = listens(gcushareSchedulerTarget)
	main.VolumeMounts = slices.Concat(mounts, []corev1.VolumeMount{mount})
	pod := corev1.PodSpec{
		ServiceAccountName: GcushareSchedulerRole,
		PriorityClassName:  priorityCluster,
		Tolerations: append(onControlPlane(), corev1.Toleration{
			Key: "node.cloudprovider.kubernetes.io/uninitialized", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}),
		Volumes:    append(volumes, config),
		Containers: []corev1.Container{main},
	}
	if s.nodeSelector == nil {
		pod.Affinity = toControlPlane() // decision D18
	}
	id := gcushareSchedulerIdentity(s)
	return []object{
		id.clusterRole(), id.clusterRoleBinding(),
		configMap(s.namespace, GcushareSchedulerRole, s.name, map[string]string{
			"scheduler.yaml": strings.ReplaceAll(gcushareSchedulerYAML, "%NAMESPACE%", s.namespace)}),
		deployment(s, true, pod),
		service(s.namespace, GcushareSchedulerRole, s.name, port("http", gcushareSchedulerPort, gcushareSchedulerTarget)),
		id.serviceAccount(),
	}
}

// gcushareSchedulerIdentity is that of a scheduler: what kube-scheduler may do,
// and the leases and the bookkeeping of gcushare.
func gcushareSchedulerIdentity(s settings) *identity {
	return &identity{
		namespace: s.namespace, account: GcushareSchedulerRole, role: GcushareSchedulerRole, binding: GcushareSchedulerRole, app: s.name,
		rules: []rbacv1.PolicyRule{
			may("create patch update", "core events.k8s.io", "events"),
			may("create get update", "coordination.k8s.io", "leases"),
			may("get list watch update patch", "core", "configmaps"),
			may("get list watch patch", "core", "nodes"),
			may("get list watch update patch delete", "core", "pods"),
			may("create", "core", "pods/binding bindings"),
			may("update patch", "core", "pods/status"),
			may("get list watch", "core", "services replicationcontrollers namespaces persistentvolumes"),
			may("get list watch update patch", "core", "persistentvolumeclaims"),
			may("get list watch", "apps", "replicasets statefulsets"),
			may("get list watch", "policy", "poddisruptionbudgets"),
			may("get list watch", "storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments"),
			may("get list watch", "resource.k8s.io", "resourceclaims resourceslices deviceclasses"),
			may("create", "authentication.k8s.io", "tokenreviews"),
			may("create", "authorization.k8s.io", "subjectaccessreviews"),
		},
	}
}

// toControlPlane places a pod on a control plane node, under its new label or
// its old one.
func toControlPlane() *corev1.Affinity {
	var terms []corev1.NodeSelectorTerm
	for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpExists}}})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}
