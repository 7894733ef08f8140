package gcuresource

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// labelName is on every object of a component; on pods it is the only label,
// so that nothing but a real change makes a new revision.
const labelName = "app.kubernetes.io/name"

// priorityNode is the priority class of everything a node's GCU depends on.
const priorityNode = "system-node-critical"

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

// daemonSet returns the DaemonSet of a component. Its pods are replaced only
// when somebody deletes them: the daemonupdater, or the person at the node.
func daemonSet(s settings, pod corev1.PodSpec) *appsv1.DaemonSet {
	labels := map[string]string{labelName: s.name}
	pod.NodeSelector = s.nodeSelector
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace, Labels: map[string]string{labelName: s.name}},
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy:       appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			RevisionHistoryLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelName: s.name}},
				Spec:       pod,
			},
		},
	}
}

// nodeNameEnv tells a container the name of its node.
func nodeNameEnv() corev1.EnvVar {
	return corev1.EnvVar{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"},
	}}
}

// onControlPlane tolerates the taints of control plane nodes, under their new
// name and their old one.
func onControlPlane() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/master", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
}

// everywhere tolerates every taint: what installs the driver must survive a cordon.
func everywhere() []corev1.Toleration {
	return []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// confined is the security context of a container that needs no right on the host.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func privileged() *corev1.SecurityContext {
	return &corev1.SecurityContext{Privileged: ptr.To(true)}
}

// shell returns a probe that succeeds when the command does, every period seconds,
// and gives up after the given number of failures.
func shell(command string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", command}}},
		PeriodSeconds:    period,
		FailureThreshold: failures,
	}
}
