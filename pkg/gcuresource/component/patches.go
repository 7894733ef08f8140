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

// nfdFields returns the first level of nfd. Its two children share one DaemonSet, with the pull
// secrets of both. Without a node selector on the first level it has those of both, the worker's
// value where they differ (contract statements 20 and 29).
func nfdFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	nfd := spec.NFD
	if nfd == nil {
		return nil
	}
	fields := &topsv1.BaseFields{NotDeploy: nfd.NotDeploy, Name: nfd.Name, Namespace: nfd.Namespace, NodeSelector: map[string]string{}}
	for _, child := range []*topsv1.BaseFields{nfd.Master, nfd.Worker} {
		if child == nil {
			continue
		}
		maps.Copy(fields.NodeSelector, child.NodeSelector)
		for _, secret := range child.ImagePullSecrets {
			if !slices.Contains(fields.ImagePullSecrets, secret) {
				fields.ImagePullSecrets = append(fields.ImagePullSecrets, secret)
			}
		}
	}
	if len(nfd.NodeSelector) > 0 {
		fields.NodeSelector = nfd.NodeSelector
	}
	return fields
}

// patchNFD sets the image and environment of both containers (contract statement 29).
func patchNFD(list objects, spec *topsv1.GcuResourceSpec) {
	fields := map[string]*topsv1.BaseFields{"nfd-master": spec.NFD.Master, "nfd-worker": spec.NFD.Worker}
	for _, c := range list.containers() {
		if own := fields[c.Name]; own != nil {
			setImage(c, own)
			setEnv(c, own.Env)
		}
	}
}

// devicePluginFields returns the fields of the device plugin, which has two names in the spec
// (contract statement 25, decision D2). The API server rejects a spec with both.
func devicePluginFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	return cmp.Or(spec.DevicePlugin, spec.Plugin)
}

// gcusharePluginFields returns the fields of gcusharePlugin. The memory unit becomes an
// environment variable (contract statement 27). A node selector of the spec is limited to shared
// nodes by their label (contract statement 28).
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

// patchGcushareScheduler moves the lease of the scheduler to its namespace (contract statement
// 14). A node selector of the spec replaces the affinity to the control plane (decision D18).
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

// EnvContainerdConfig names the file that an installer writes for containerd, where it is neither
// that of packages nor one of pkg/distribution.
const EnvContainerdConfig = "CONTAINERD_CONFIG"

// namesContainerdConfig reports whether a spec names that file.
func namesContainerdConfig(spec *topsv1.GcuResourceSpec) bool {
	return slices.ContainsFunc(spec.Toolkit.Env, func(v corev1.EnvVar) bool { return v.Name == EnvContainerdConfig && v.Value != "" })
}

// patchToolkit makes the readiness probe read the file that the spec names in EnvContainerdConfig:
// the shell of the probe has the same environment.
func patchToolkit(list objects, spec *topsv1.GcuResourceSpec) {
	if !namesContainerdConfig(spec) {
		return
	}
	for _, o := range list {
		if ds, ok := o.(*appsv1.DaemonSet); ok {
			probe := ds.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command
			probe[len(probe)-1] += ` "/host${` + EnvContainerdConfig + `}"`
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

// nightingaleFields returns the fields of nightingale itself, which apply to all its parts: whether it is deployed, and its namespace (contract
// statements 20 and 30).
func nightingaleFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.Nightingale == nil {
		return nil
	}
	return &topsv1.BaseFields{NotDeploy: spec.Nightingale.NotDeploy, Namespace: spec.Nightingale.Namespace}
}

// applyParts applies the fields of the parts of nightingale or volcano, by the built-in name of
// their workload; it skips nil ones. The namespace of a part has no effect, only that of the
// first level (contract statement 20).
func (l objects) applyParts(fields map[string]*topsv1.BaseFields) {
	parts := map[string]objects{}
	for _, o := range l {
		name := o.GetLabels()[LabelName]
		parts[name] = append(parts[name], o)
	}
	for name, part := range parts {
		if fields[name] == nil {
			continue
		}
		own := *fields[name]
		own.Namespace = ""
		part.apply(&own)
	}
}

// patchNightingale applies the fields of the parts (contract statement 30). The Services keep
// their names, by which the parts find each other.
func patchNightingale(list objects, spec *topsv1.GcuResourceSpec) {
	n := spec.Nightingale
	setMySQLVolume(list, n.MySQLPV, n.MySQLPVC)
	setMySQLClient(list, n.MySQL)
	list.applyParts(map[string]*topsv1.BaseFields{"agentd": n.Agentd, "mysql": n.MySQL, "nserver": n.NServer, "nwebapi": n.NWebAPI,
		"prometheus": n.Prometheus, "redis": n.Redis})
}

// setMySQLClient gives the init containers that wait for the database its image, because they use
// its client (contract statement 17).
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

// setMySQLVolume sets the name of the database's volume, its path on the node, and the name of
// its claim (contract statement 30). Either may be nil.
func setMySQLVolume(list objects, volume *topsv1.HostPathVolume, claim *topsv1.VolumeClaim) {
	for _, o := range list {
		switch o := o.(type) {
		case *corev1.PersistentVolume:
			if volume != nil {
				o.Name, o.Spec.HostPath.Path = volume.Name, volume.HostPath
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

// volcanoFields returns the fields of volcano itself, which apply to all its parts: whether it is deployed, and its namespace (contract statements 20
// and 31).
func volcanoFields(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.Volcano == nil {
		return nil
	}
	return &topsv1.BaseFields{NotDeploy: spec.Volcano.NotDeploy, Namespace: spec.Volcano.Namespace}
}

// patchVolcano applies the fields of the parts (contract statement 31). Those of admission also
// apply to the Job that creates its certificate.
func patchVolcano(list objects, spec *topsv1.GcuResourceSpec) {
	v := spec.Volcano
	setWebhookNamespace(list, v.Namespace)
	list.applyParts(map[string]*topsv1.BaseFields{"volcano-admission": v.Admission, "volcano-admission-init": v.Admission,
		"volcano-controllers": v.Controller, "volcano-scheduler": v.Scheduler})
}

// setWebhookNamespace passes the namespace of the webhook manager to the webhooks,
// to the manager itself, and to the Job that creates its certificate (contract
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
	for _, c := range list.containers() {
		for i := range c.Args {
			if strings.HasPrefix(c.Args[i], flag) {
				c.Args[i] = flag + namespace
			}
		}
		for i := range c.Env {
			if c.Env[i].Name == "NAMESPACE" {
				c.Env[i].Value = namespace
			}
		}
	}
}

// setWebhook sets the namespace of the Service that a webhook calls, and excludes that namespace
// and kube-system from the webhook. Requests fail while the Service does not answer, so without
// the exclusion neither could ever start again.
func setWebhook(client *admissionv1.WebhookClientConfig, selector *metav1.LabelSelector, namespace string) {
	client.Service.Namespace = namespace
	excluded := []string{"kube-system", namespace}
	slices.Sort(excluded)
	for i := range selector.MatchExpressions {
		selector.MatchExpressions[i].Values = slices.Compact(excluded)
	}
}
