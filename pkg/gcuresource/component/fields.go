package component

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// LabelName is on every object of a component: the name of its workload. On the pods of a
// DaemonSet it is the only label, so that only real changes create a new revision.
const LabelName = "app.kubernetes.io/name"

// objects are the objects of a component, or of one of its workloads.
type objects []object

// apply applies the fields of a spec to the objects of one workload. An unset field leaves the
// built-in value; fields may be nil.
func (l objects) apply(fields *topsv1.BaseFields) {
	if fields == nil {
		return
	}
	l.setNamespace(fields.Namespace)
	for _, pod := range l.pods() {
		setNodeSelector(pod, fields.NodeSelector)
		setPullSecrets(pod, fields.ImagePullSecrets)
	}
	for _, c := range l.containers() {
		setImage(c, fields)
		setEnv(c, fields.Env)
	}
	l.setName(fields.Name)
}

// pods returns the pod specs of the workloads.
func (l objects) pods() []*corev1.PodSpec {
	var pods []*corev1.PodSpec
	for _, o := range l {
		if template := templateOf(o); template != nil {
			pods = append(pods, &template.Spec)
		}
	}
	return pods
}

// containers returns the containers of the workloads, without init containers.
func (l objects) containers() []*corev1.Container {
	var containers []*corev1.Container
	for _, pod := range l.pods() {
		for i := range pod.Containers {
			containers = append(containers, &pod.Containers[i])
		}
	}
	return containers
}

// templateOf returns the pod template of a workload, nil for other objects.
func templateOf(o object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

// setName replaces the built-in name of a workload and the label of the objects that belong to it
// (contract statement 13). Only the workload is renamed. Webhooks, CreateOnly objects and what several grs
// may share keep their label.
func (l objects) setName(name string) {
	if name == "" {
		return
	}
	for _, o := range l {
		if ref := RefOf(o); ref.CreateOnly() || ref.Kept() || ref.Webhook() {
			continue
		}
		o.SetLabels(map[string]string{LabelName: name})
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			o.Name = name
			setPodName(o.Spec.Selector, &o.Spec.Template, name)
		case *appsv1.Deployment:
			o.Name = name
			setPodName(o.Spec.Selector, &o.Spec.Template, name)
		case *corev1.Service:
			o.Spec.Selector = map[string]string{LabelName: name}
		}
	}
}

// setPodName labels the pods of a workload with its name. A container that has the workload's
// built-in name is renamed as well (contract statement 13).
func setPodName(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, name string) {
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; c.Name == selector.MatchLabels[LabelName] {
			c.Name = name
		}
	}
	selector.MatchLabels = map[string]string{LabelName: name}
	template.Labels = map[string]string{LabelName: name}
}

// setNamespace replaces the built-in namespace: of the objects, of the subjects of bindings, and
// of the Namespace itself (contract statement 14).
func (l objects) setNamespace(namespace string) {
	if namespace == "" {
		return
	}
	for _, o := range l {
		if o.GetNamespace() != "" {
			o.SetNamespace(namespace)
		}
		switch o := o.(type) {
		case *corev1.Namespace:
			o.Name = namespace
			o.Labels = map[string]string{LabelName: namespace}
		case *rbacv1.ClusterRoleBinding:
			for i := range o.Subjects {
				o.Subjects[i].Namespace = namespace
			}
		}
	}
}

// setImage replaces repository, name and version of a container's image, which is
// repository/image:version (contract statements 11 and 15 to 17), or repository/image@version for a
// digest, and the pull policy (contract statement 12).
func setImage(c *corev1.Container, fields *topsv1.BaseFields) {
	name := path.Base(c.Image)
	end := strings.IndexAny(name, ":@") // a built-in image has a tag
	name, version := name[:end], name[end:]
	if fields.Version != "" {
		version = separator(fields.Version) + fields.Version
	}
	c.Image = cmp.Or(fields.Repository, path.Dir(c.Image)) + "/" + cmp.Or(fields.Image, name) + version
	c.ImagePullPolicy = cmp.Or(fields.ImagePullPolicy, c.ImagePullPolicy)
}

// separator returns what is between the name of an image and a version: a tag, a digest, or a tag
// with a digest.
func separator(version string) string {
	if strings.HasPrefix(version, "sha256:") {
		return "@"
	}
	return ":"
}

// setEnv merges environment variables into those of a container. A variable that is built in is
// replaced in place; the others are appended in order (contract statement 18, decision D20).
func setEnv(c *corev1.Container, env []corev1.EnvVar) {
	for _, v := range env {
		i := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == v.Name })
		if i < 0 {
			c.Env = append(c.Env, v)
			continue
		}
		c.Env[i] = v
	}
}

// setNodeSelector replaces the built-in node selector, unless the new one is empty (contract
// statements 19 and 35, decision D11).
func setNodeSelector(pod *corev1.PodSpec, selector map[string]string) {
	if len(selector) > 0 {
		pod.NodeSelector = maps.Clone(selector)
	}
}

// setPullSecrets gives a pod pull secrets, unless it has some.
func setPullSecrets(pod *corev1.PodSpec, secrets []corev1.LocalObjectReference) {
	if len(pod.ImagePullSecrets) == 0 {
		pod.ImagePullSecrets = slices.Clone(secrets)
	}
}
