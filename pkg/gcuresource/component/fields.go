package component

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Defaults of BaseFields that hold for every component (contract statements 12 to 16).
const (
	defaultRepository = "artifact.enflame.cn/enflame_docker_images/enflame"
	defaultVersion    = "latest"
	defaultNamespace  = "kube-system"
	defaultPullPolicy = corev1.PullIfNotPresent
)

// builtIn are the values of a component's built-in manifest that BaseFields can change.
type builtIn struct {
	name         string
	image        string
	env          []corev1.EnvVar
	nodeSelector map[string]string
}

// settings are the values a component is rendered with.
type settings struct {
	name         string
	namespace    string
	image        string
	pullPolicy   corev1.PullPolicy
	env          []corev1.EnvVar
	nodeSelector map[string]string
}

// onGCUNodes is the built-in node selector of the GCU components (contract statement 35).
func onGCUNodes() map[string]string {
	return map[string]string{topsv1.LabelGcuPresent: "true"}
}

// with returns the settings that come out when the fields of a spec are laid
// over the built-in values. fields may be nil. Env is merged by name (decision
// D20), nodeSelector replaces (decision D11).
func (b builtIn) with(fields *topsv1.BaseFields) settings {
	if fields == nil {
		fields = &topsv1.BaseFields{}
	}
	s := settings{
		name:         cmp.Or(fields.Name, b.name),
		namespace:    cmp.Or(fields.Namespace, defaultNamespace),
		image:        imageOf(fields, b.image),
		pullPolicy:   corev1.PullPolicy(cmp.Or(string(fields.ImagePullPolicy), string(defaultPullPolicy))),
		env:          mergeEnv(b.env, fields.Env),
		nodeSelector: b.nodeSelector,
	}
	if len(fields.NodeSelector) > 0 {
		s.nodeSelector = fields.NodeSelector
	}
	return s
}

// imageOf returns repository/image:version (contract statement 17).
func imageOf(fields *topsv1.BaseFields, image string) string {
	return cmp.Or(fields.Repository, defaultRepository) + "/" + cmp.Or(fields.Image, image) + ":" + cmp.Or(fields.Version, defaultVersion)
}

// mergeEnv lays the given variables over the built-in ones: one of the same
// name takes its place, the others follow in their order.
func mergeEnv(builtIn, given []corev1.EnvVar) []corev1.EnvVar {
	merged := slices.Clone(builtIn)
	for _, v := range given {
		i := slices.IndexFunc(merged, func(have corev1.EnvVar) bool { return have.Name == v.Name })
		if i < 0 {
			merged = append(merged, v)
			continue
		}
		merged[i] = v
	}
	return merged
}
