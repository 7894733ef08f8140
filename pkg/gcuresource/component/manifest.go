package component

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// LabelName is on every object of a component; on the pods of a DaemonSet it is
// the only label, so that nothing but a real change makes a new revision.
const LabelName = "app.kubernetes.io/name"

const (
	// priorityNode is the priority class of everything a node's GCU depends on.
	priorityNode = "system-node-critical"
	// priorityCluster is that of what the whole cluster depends on.
	priorityCluster = "system-cluster-critical"
)

// metaOf returns the metadata of an object. app is the value of LabelName;
// namespace is empty for cluster scoped kinds.
func metaOf(namespace, name, app string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{LabelName: app}}
}

// daemonSet returns the DaemonSet of a component. Its pods are replaced only
// when somebody deletes them: the daemonupdater, or the person at the node.
func daemonSet(s settings, pod corev1.PodSpec) *appsv1.DaemonSet {
	labels := map[string]string{LabelName: s.name}
	pod.NodeSelector = s.nodeSelector
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metaOf(s.namespace, s.name, s.name),
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy:       appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			RevisionHistoryLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelName: s.name}},
				Spec:       pod,
			},
		},
	}
}

// deployment returns a Deployment of one replica. Kubernetes replaces its pod
// when the template changes: the old one goes first when alone is true.
func deployment(s settings, alone bool, pod corev1.PodSpec) *appsv1.Deployment {
	pod.NodeSelector = s.nodeSelector
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metaOf(s.namespace, s.name, s.name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelName: s.name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelName: s.name}},
				Spec:       pod,
			},
		},
	}
	if alone {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	}
	return d
}

// container returns the one container of a component, named after it. What it
// last said is kept for the status of the gr when it writes no message itself.
func container(s settings) corev1.Container {
	return corev1.Container{
		Name:                     s.name,
		Image:                    s.image,
		ImagePullPolicy:          s.pullPolicy,
		Env:                      s.env,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metaOf("", name, name)}
}

func configMap(namespace, name, app string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metaOf(namespace, name, app),
		Data:       data,
	}
}

// service returns a Service in front of the pods labelled app: inside the
// cluster unless a port has a node port.
func service(namespace, name, app string, ports ...corev1.ServicePort) *corev1.Service {
	kind := corev1.ServiceTypeClusterIP
	for i := range ports {
		if ports[i].NodePort != 0 {
			kind = corev1.ServiceTypeNodePort
		}
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metaOf(namespace, name, app),
		Spec:       corev1.ServiceSpec{Type: kind, Selector: map[string]string{LabelName: app}, Ports: ports},
	}
}

// port is a TCP port of a Service that leads to target on the pod.
func port(name string, number, target int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(target), Protocol: corev1.ProtocolTCP}
}

// listens is a probe that succeeds when something accepts connections.
func listens(number int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(number)}},
		PeriodSeconds: 10,
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
