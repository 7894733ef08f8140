package request

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	imagename "github.com/google/go-containerregistry/pkg/name"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Node is the observed state of this node: its pods, and the DaemonSets that own them.
type Node struct {
	Name       string         `json:"-"`
	Time       metav1.Time    `json:"time"`
	Pods       corev1.PodList `json:"pods"`
	DaemonSets []DaemonSet    `json:"daemonSets"`
}

// DaemonSet is what the agent keeps of a DaemonSet.
type DaemonSet struct {
	Ref topsv1.NamespacedRef `json:"ref"`
	// Component is its key in the spec of the GcuResource that controls it, else its name.
	Component string `json:"component"`
	// Ours is true if a GcuResource controls it.
	Ours     bool               `json:"ours"`
	Strategy daemonset.Strategy `json:"strategy"`
	// Target is its newest revision, as PodNeedUpgrade names it; nil if unknown.
	Target *Template `json:"target,omitempty"`
}

// Template describes the pods of a revision.
type Template struct {
	Revision    string   `json:"revision"`
	Images      []string `json:"images,omitempty"`
	Version     string   `json:"version,omitempty"`
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// DaemonSetOf describes a DaemonSet.
func DaemonSetOf(ds *appsv1.DaemonSet) DaemonSet {
	component := daemonset.Component(ds)
	o := DaemonSet{
		Ref:       topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID},
		Component: cmp.Or(component, ds.Name),
		Ours:      component != "",
	}
	if settings, err := daemonset.SettingsOf(ds); err == nil {
		o.Strategy = settings.Strategy
	}
	return o
}

// ReadTemplate reads a ControllerRevision of a DaemonSet.
func ReadTemplate(revision *appsv1.ControllerRevision, hash string) (*Template, error) {
	var patch struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &patch); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return TemplateOf(&patch.Spec.Template.Spec, hash), nil
}

// TemplateOf describes the pods of a revision.
func TemplateOf(spec *corev1.PodSpec, hash string) *Template {
	t := &Template{Revision: hash, Images: daemonset.Images(spec), PullSecrets: daemonset.PullSecrets(spec)}
	if len(spec.Containers) > 0 {
		t.Version = versionOf(spec.Containers[0].Image)
	}
	return t
}

// versionOf returns the tag of an image, or its digest.
func versionOf(image string) string {
	reference, err := imagename.ParseReference(image)
	if err != nil {
		return ""
	}
	return reference.Identifier()
}

// Placed is a pod on this node with its DaemonSet.
type Placed struct {
	Pod       *corev1.Pod
	DaemonSet *DaemonSet
}

// Placed returns the pods of DaemonSets that are ours or have a strategy or whose pods have PodNeedUpgrade,
// sorted by component, namespace and name. A pod in another namespace than the DaemonSet that it refers to is not of it.
func (n *Node) Placed() []Placed {
	var list []Placed
	for i := range n.Pods.Items {
		pod := &n.Pods.Items[i]
		ref := daemonset.Owner(pod)
		if ref == nil {
			continue
		}
		at := slices.IndexFunc(n.DaemonSets, func(d DaemonSet) bool { return d.Ref.UID == ref.UID && d.Ref.Namespace == pod.Namespace })
		if at < 0 {
			continue
		}
		if ds := &n.DaemonSets[at]; ds.Ours || ds.Strategy != daemonset.NoStrategy || daemonset.NeedUpgrade(pod) != nil {
			list = append(list, Placed{pod, ds})
		}
	}
	slices.SortFunc(list, func(a, b Placed) int {
		return cmp.Or(cmp.Compare(a.DaemonSet.Component, b.DaemonSet.Component), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return list
}

// Shows reports whether this is the newest known revision of a DaemonSet, "" for none.
func (d *DaemonSet) Shows(hash string) bool {
	switch {
	case d == nil:
		return false
	case d.Target == nil:
		return hash == ""
	}
	return d.Target.Revision == hash
}
