package component

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// NightingaleSecret holds the password of nightingale's database.
const NightingaleSecret = "nightingale-mysql"

// nfdFields returns the first level of nfd. Its node selector is what the two
// containers ask for together when it has none, the worker's value where they
// differ: there is one DaemonSet (contract statements 20 and 29).
func nfdFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	nfd := spec.NFD
	if nfd == nil {
		return nil
	}
	selector := nfd.NodeSelector
	if len(selector) == 0 {
		selector = map[string]string{}
		for _, child := range []*topsv1.BaseFields{nfd.Master, nfd.Worker} {
			if child != nil {
				maps.Copy(selector, child.NodeSelector)
			}
		}
	}
	return &topsv1.BaseFields{NotDeploy: nfd.NotDeploy, Name: nfd.Name, Namespace: nfd.Namespace, NodeSelector: selector}
}

// patchNFD sets image and environment of each of the two containers (contract
// statement 29).
func patchNFD(list objects, spec *topsv1.GcuResourceSpec) {
	fields := map[string]*topsv1.BaseFields{"nfd-master": spec.NFD.Master, "nfd-worker": spec.NFD.Worker}
	for _, pod := range list.pods() {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if own := fields[c.Name]; own != nil {
				setImage(c, own)
				setEnv(c, own.Env)
			}
		}
	}
}

// devicePluginFields returns the fields of the device plugin, which has a second
// name in the spec (contract statement 25, decision D2). The API server refuses a
// spec with both.
func devicePluginFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	return cmp.Or(spec.DevicePlugin, spec.Plugin)
}

// gcusharePluginFields returns the fields of gcusharePlugin. The memory unit is an
// environment variable (contract statement 27); the nodes whose cards are shared
// have a label, which is selected beside what the spec selects (contract
// statement 28).
func gcusharePluginFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	share := spec.GcusharePlugin
	if share == nil {
		return nil
	}
	fields := share.BaseFields
	if share.MemoryUnit != "" {
		fields.Env = slices.Concat([]corev1.EnvVar{{Name: "MEMORY_UNIT", Value: share.MemoryUnit}}, fields.Env)
	}
	if len(fields.NodeSelector) > 0 {
		fields.NodeSelector = maps.Clone(fields.NodeSelector)
		fields.NodeSelector[topsv1.LabelGcushare] = "true"
	}
	return &fields
}

// patchGcushareScheduler puts the lease of the scheduler into its namespace, and
// lets its pod leave the control plane when the spec selects nodes (decision D18).
func patchGcushareScheduler(list objects, spec *topsv1.GcuResourceSpec) {
	const lease = "resourceNamespace: "
	fields := spec.GcushareScheduler
	for _, o := range list {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			for file, text := range o.Data {
				o.Data[file] = strings.ReplaceAll(text, lease+o.Namespace, lease+cmp.Or(fields.Namespace, o.Namespace))
			}
		case *appsv1.Deployment:
			if len(fields.NodeSelector) > 0 {
				o.Spec.Template.Spec.Affinity = nil
			}
		}
	}
}

// patchExporter gives the Service the name of the DaemonSet (contract statement 49).
func patchExporter(list objects, spec *topsv1.GcuResourceSpec) {
	for _, o := range list {
		if service, ok := o.(*corev1.Service); ok {
			service.Name = cmp.Or(spec.Exporter.Name, service.Name)
		}
	}
}

// nightingaleFields returns the first level of nightingale (contract statements 20
// and 30).
func nightingaleFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.Nightingale == nil {
		return nil
	}
	return &topsv1.BaseFields{NotDeploy: spec.Nightingale.NotDeploy, Namespace: spec.Nightingale.Namespace}
}

// partFields returns the fields that a part of nightingale or volcano has of its
// own: its namespace has no effect, the first level has one (contract statement
// 20). fields may be nil.
func partFields(fields *topsv1.BaseFields) *topsv1.BaseFields {
	if fields == nil {
		return nil
	}
	own := *fields
	own.Namespace = ""
	return &own
}

// patchNightingale applies the fields of the parts (contract statement 30). The
// Services keep their names, by which the parts find each other.
func patchNightingale(list objects, spec *topsv1.GcuResourceSpec) {
	n := spec.Nightingale
	parts := list.byWorkload()
	setMySQLVolume(parts["mysql"], n.MySQLPV, n.MySQLPVC)
	setMySQLClient(list, n.MySQL)
	parts["agentd"].apply(partFields(n.Agentd))
	parts["mysql"].apply(partFields(n.MySQL))
	parts["nserver"].apply(partFields(n.NServer))
	parts["nwebapi"].apply(partFields(n.NWebAPI))
	parts["prometheus"].apply(partFields(n.Prometheus))
	parts["redis"].apply(partFields(n.Redis))
}

// setMySQLClient gives the init containers that wait for the database its image.
func setMySQLClient(list objects, mysql *topsv1.BaseFields) {
	if mysql == nil {
		return
	}
	for _, pod := range list.pods() {
		for i := range pod.InitContainers {
			setImage(&pod.InitContainers[i], mysql)
		}
	}
}

// setMySQLVolume names the volume of the database, its path on the node and the
// claim on it (contract statement 30). Either may be nil.
func setMySQLVolume(mysql objects, volume *topsv1.HostPathVolume, claim *topsv1.VolumeClaim) {
	for _, o := range mysql {
		switch o := o.(type) {
		case *corev1.PersistentVolume:
			if volume != nil {
				o.Name = volume.Name
				o.Spec.HostPath.Path = volume.HostPath
			}
		case *corev1.PersistentVolumeClaim:
			if volume != nil {
				o.Spec.VolumeName = volume.Name
			}
			if claim != nil {
				o.Name = claim.Name
			}
		case *appsv1.Deployment:
			for _, v := range o.Spec.Template.Spec.Volumes {
				if claim != nil && v.PersistentVolumeClaim != nil {
					v.PersistentVolumeClaim.ClaimName = claim.Name
				}
			}
		}
	}
}

// volcanoFields returns the first level of volcano (contract statements 20 and 31).
func volcanoFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.Volcano == nil {
		return nil
	}
	return &topsv1.BaseFields{NotDeploy: spec.Volcano.NotDeploy, Namespace: spec.Volcano.Namespace}
}

// patchVolcano applies the fields of the parts (contract statement 31). The Job
// that makes the certificate of admission has the fields of admission except the
// name.
func patchVolcano(list objects, spec *topsv1.GcuResourceSpec) {
	v := spec.Volcano
	parts := list.byWorkload()
	setWebhookNamespace(list, v.Namespace)
	parts["volcano-admission"].apply(partFields(v.Admission))
	parts["volcano-controllers"].apply(partFields(v.Controller))
	parts["volcano-scheduler"].apply(partFields(v.Scheduler))
	if job := partFields(v.Admission); job != nil {
		job.Name = ""
		parts["volcano-admission-init"].apply(job)
	}
}

// setWebhookNamespace tells everybody in which namespace the webhook manager is:
// the webhooks, itself, and the Job that makes its certificate (contract
// statements 14 and 31).
func setWebhookNamespace(list objects, namespace string) {
	if namespace == "" {
		return
	}
	for _, o := range list {
		switch o := o.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range o.Webhooks {
				setWebhook(&o.Webhooks[i].ClientConfig, o.Webhooks[i].NamespaceSelector, namespace)
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range o.Webhooks {
				setWebhook(&o.Webhooks[i].ClientConfig, o.Webhooks[i].NamespaceSelector, namespace)
			}
		}
	}
	const flag = "--webhook-namespace="
	for _, pod := range list.pods() {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			for j := range c.Args {
				if strings.HasPrefix(c.Args[j], flag) {
					c.Args[j] = flag + namespace
				}
			}
			for j := range c.Env {
				if c.Env[j].Name == "NAMESPACE" {
					c.Env[j].Value = namespace
				}
			}
		}
	}
}

// setWebhook leads a webhook to a namespace and spares that and kube-system:
// webhooks refuse when nobody answers, and without these two nothing would come up
// again.
func setWebhook(client *admissionv1.WebhookClientConfig, asked *metav1.LabelSelector, namespace string) {
	client.Service.Namespace = namespace
	spared := []string{"kube-system", namespace}
	slices.Sort(spared)
	for i := range asked.MatchExpressions {
		asked.MatchExpressions[i].Values = slices.Compact(spared)
	}
}
