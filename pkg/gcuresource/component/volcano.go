package component

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	volcanoNamespace = "volcano-system"
	// Names of the objects of volcano (components.md section 1.10). The webhook
	// manager looks for its Service and its webhook configurations by these.
	volcanoAdmission       = "volcano-admission"
	volcanoAdmissionInit   = "volcano-admission-init"
	volcanoAdmissionConfig = "volcano-admission-configmap"
	volcanoAdmissionSecret = "volcano-admission-secret"
	volcanoService         = "volcano-admission-service"
	volcanoControllers     = "volcano-controllers"
	volcanoScheduler       = "volcano-scheduler"
	volcanoSchedulerConfig = "volcano-scheduler-configmap"
	volcanoSchedulerSvc    = "volcano-scheduler-service"

	volcanoAdmissionPort = 8443
	volcanoMetricsPort   = 8080
	// volcanoCertificates and volcanoSettings are directories of the admission pod.
	volcanoCertificates = "/admission.local.config/certificates"
	volcanoSettings     = "/admission.local.config/configmap"
)

// volcanoSchedulerYAML is the order of actions and the plugins of the scheduler.
const volcanoSchedulerYAML = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

// renderVolcano renders the batch system of release v1.7.0 (components.md
// section 1.10). Namespace and notDeploy of a part have no effect, the first
// level has both (contract statement 20). An error means that the CRDs cannot be
// read.
func renderVolcano(spec *topsv1.GcuResourceSpec) ([]object, error) {
	crds, err := volcanoCRDs()
	if err != nil {
		return nil, err
	}
	v := spec.Volcano
	ns := cmp.Or(v.Namespace, volcanoNamespace)
	part := func(fields *topsv1.BaseFields, name, image string) settings {
		s := builtIn{name: name, image: image}.with(fields)
		s.namespace = ns
		return s
	}
	list := []object{namespace(ns)}
	list = append(list, crds...)
	list = append(list, renderVolcanoAdmission(part(v.Admission, volcanoAdmission, "vc-webhook-manager"))...)
	list = append(list, renderVolcanoControllers(part(v.Controller, volcanoControllers, "vc-controller-manager"))...)
	list = append(list, renderVolcanoScheduler(part(v.Scheduler, volcanoScheduler, "vc-scheduler"))...)
	return append(list, volcanoWebhooks(ns)...), nil
}

func volcanoIdentity(s settings, name string) *identity {
	return &identity{namespace: s.namespace, account: name, role: name, binding: name + "-role", app: s.name}
}

func volcanoPod(account string, main corev1.Container) corev1.PodSpec {
	main.SecurityContext = confined()
	return corev1.PodSpec{ServiceAccountName: account, PriorityClassName: priorityCluster, Containers: []corev1.Container{main}}
}

func renderVolcanoAdmission(s settings) []object {
	id := volcanoIdentity(s, volcanoAdmission)
	id.rules = volcanoAdmissionRules()
	config, mount := configVolume("config", volcanoAdmissionConfig, volcanoSettings)
	main := container(s)
	main.Args = []string{
		"--enabled-admission=/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/pods/mutate,/queues/mutate,/queues/validate",
		"--tls-cert-file=" + volcanoCertificates + "/tls.crt",
		"--tls-private-key-file=" + volcanoCertificates + "/tls.key",
		"--ca-cert-file=" + volcanoCertificates + "/ca.crt",
		"--admission-conf=" + volcanoSettings + "/volcano-admission.conf",
		"--webhook-namespace=" + s.namespace,
		"--webhook-service-name=" + volcanoService,
		fmt.Sprintf("--port=%d", volcanoAdmissionPort),
		"--logtostderr",
	}
	main.Ports = []corev1.ContainerPort{{Name: "webhook", ContainerPort: volcanoAdmissionPort, Protocol: corev1.ProtocolTCP}}
	// It listens only when it has found its webhook configurations, and those
	// come when it runs: a readiness probe would wait for itself.
	main.VolumeMounts = []corev1.VolumeMount{{Name: "certificates", MountPath: volcanoCertificates, ReadOnly: true}, mount}
	pod := volcanoPod(volcanoAdmission, main)
	pod.Volumes = []corev1.Volume{
		{Name: "certificates", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: volcanoAdmissionSecret}}},
		config,
	}
	return []object{
		id.clusterRole(), id.clusterRoleBinding(),
		configMap(s.namespace, volcanoAdmissionConfig, s.name, map[string]string{"volcano-admission.conf": "resourceGroups: []\n"}),
		deployment(s, false, pod), volcanoAdmissionJob(s),
		service(s.namespace, volcanoService, s.name, port("webhook", 443, volcanoAdmissionPort)),
		id.serviceAccount(),
	}
}

// makeCertificates makes the certificate of the webhooks unless an earlier
// deployment left one. The Secret belongs to the Job, so that it goes with it.
const makeCertificates = `kubectl -n "$NAMESPACE" get secret "$SECRET" ||
  ./gen-admission-secret.sh --service "$SERVICE" --namespace "$NAMESPACE" --secret "$SECRET" || exit 1
kubectl -n "$NAMESPACE" patch secret "$SECRET" --type merge --patch '{"metadata":{"ownerReferences":[
  {"apiVersion":"batch/v1","kind":"Job","name":"'"$JOB"'","uid":"'"$JOB_UID"'"}]}}'
`

// volcanoAdmissionJob makes the certificate of the webhooks.
func volcanoAdmissionJob(s settings) *batchv1.Job {
	s.name = volcanoAdmissionInit
	s.env = append([]corev1.EnvVar{
		{Name: "NAMESPACE", Value: s.namespace},
		{Name: "SECRET", Value: volcanoAdmissionSecret},
		{Name: "SERVICE", Value: volcanoService},
		{Name: "JOB", Value: volcanoAdmissionInit},
		{Name: "JOB_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.ControllerUidLabel + "']"}}},
	}, s.env...)
	main := container(s)
	main.Command = []string{"sh", "-c", makeCertificates}
	pod := volcanoPod(volcanoAdmission, main)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.NodeSelector = s.nodeSelector
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metaOf(s.namespace, volcanoAdmissionInit, s.name),
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](3),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelName: s.name}},
				Spec:       pod,
			},
		},
	}
}

func renderVolcanoControllers(s settings) []object {
	id := volcanoIdentity(s, volcanoControllers)
	id.rules = volcanoControllerRules()
	main := container(s)
	main.Args = []string{"--logtostderr", "--enable-healthz=true"}
	return []object{
		id.clusterRole(), id.clusterRoleBinding(), deployment(s, false, volcanoPod(volcanoControllers, main)), id.serviceAccount(),
	}
}

func renderVolcanoScheduler(s settings) []object {
	id := volcanoIdentity(s, volcanoScheduler)
	id.rules = volcanoSchedulerRules()
	config, mount := configVolume("config", volcanoSchedulerConfig, "/volcano.scheduler")
	main := container(s)
	main.Args = []string{
		"--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
	}
	main.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: volcanoMetricsPort, Protocol: corev1.ProtocolTCP}}
	main.VolumeMounts = []corev1.VolumeMount{mount}
	pod := volcanoPod(volcanoScheduler, main)
	pod.Volumes = []corev1.Volume{config}
	metrics := service(s.namespace, volcanoSchedulerSvc, s.name, port("metrics", volcanoMetricsPort, volcanoMetricsPort))
	metrics.Annotations = map[string]string{
		"prometheus.io/scrape": "true",
		"prometheus.io/path":   "/metrics",
		"prometheus.io/port":   "8080",
	}
	return []object{
		id.clusterRole(), id.clusterRoleBinding(),
		configMap(s.namespace, volcanoSchedulerConfig, s.name, map[string]string{"volcano-scheduler.conf": volcanoSchedulerYAML}),
		deployment(s, false, pod), metrics, id.serviceAccount(),
	}
}
