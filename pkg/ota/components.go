package ota

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	imagename "github.com/google/go-containerregistry/pkg/name"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// snapshot is what was seen of this node: its pods, and the DaemonSets that own them.
type snapshot struct {
	Time       metav1.Time    `json:"time"`
	Pods       corev1.PodList `json:"pods"`
	DaemonSets []owner        `json:"daemonSets"`
}

// owner is what is known of a DaemonSet.
type owner struct {
	Ref topsv1.NamespacedRef `json:"ref"`
	// Component is its key in the spec of a GcuResource, else its name.
	Component string `json:"component"`
	// Ours: the operator deploys or upgrades it.
	Ours     bool               `json:"ours"`
	Strategy daemonset.Strategy `json:"strategy"`
	// Target is its newest revision, as PodNeedUpgrade names it; nil when not known.
	Target *template `json:"target,omitempty"`
}

// template is what a pod of a revision is made of.
type template struct {
	Revision    string   `json:"revision"`
	Images      []string `json:"images,omitempty"`
	Version     string   `json:"version,omitempty"`
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// ownerOf describes a DaemonSet.
func ownerOf(ds *appsv1.DaemonSet) owner {
	o := owner{
		Ref:       topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID},
		Component: cmp.Or(ds.Labels[topsv1.LabelComponent], ds.Name),
		Ours:      ds.Labels[topsv1.LabelComponent] != "",
	}
	if settings, err := daemonset.SettingsOf(ds); err == nil {
		o.Strategy = settings.Strategy
		o.Ours = o.Ours || settings.Strategy != daemonset.NoStrategy
	}
	return o
}

// templateOf reads a ControllerRevision of a DaemonSet.
func templateOf(revision *appsv1.ControllerRevision, hash string) (*template, error) {
	var patch struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &patch); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return describe(&patch.Spec.Template.Spec, hash), nil
}

func describe(spec *corev1.PodSpec, hash string) *template {
	t := &template{Revision: hash, Images: daemonset.Images(spec), PullSecrets: daemonset.PullSecrets(spec)}
	if len(spec.Containers) > 0 {
		t.Version = versionOf(spec.Containers[0].Image)
	}
	return t
}

// versionOf returns the tag, or the digest, of an image.
func versionOf(image string) string {
	reference, err := imagename.ParseReference(image)
	if err != nil {
		return ""
	}
	return reference.Identifier()
}

// newest returns the hash of the newest revision that PodNeedUpgrade of a pod names,
// "" when it names none.
func newest(pod *corev1.Pod) string {
	condition := daemonset.NeedUpgrade(pod)
	if condition == nil {
		return ""
	}
	hash, found := strings.CutPrefix(condition.Message, topsv1.PodNeedUpgradeMessagePrefix)
	if !found {
		return ""
	}
	return hash
}

// placed is a pod of a DaemonSet of ours on this node.
type placed struct {
	pod   *corev1.Pod
	owner *owner
}

// placedIn returns the pods of ours, sorted by component, namespace and name.
func placedIn(s *snapshot) []placed {
	var list []placed
	for i := range s.Pods.Items {
		pod := &s.Pods.Items[i]
		ref := daemonset.Owner(pod)
		if ref == nil {
			continue
		}
		n := slices.IndexFunc(s.DaemonSets, func(o owner) bool { return o.Ref.UID == ref.UID })
		if n >= 0 && (s.DaemonSets[n].Ours || daemonset.NeedUpgrade(pod) != nil) {
			list = append(list, placed{pod, &s.DaemonSets[n]})
		}
	}
	slices.SortFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.owner.Component, b.owner.Component), cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return list
}

// wish is what an operation is to do.
type wish struct {
	// Component is its key in the spec of a GcuResource or the name of its DaemonSet;
	// "" is all that is outdated.
	Component string `json:"component,omitempty"`
	// Latest takes the revision that is the newest when the operator is told, not the
	// one that was when it was asked.
	Latest bool `json:"latest,omitempty"`
}

// choose returns the parts of an operation, or why there is none to begin. For all
// there may be no part: nothing is outdated.
func choose(s *snapshot, w wish, nodeName string) ([]part, *Refusal) {
	var parts []part
	found := false
	for _, p := range placedIn(s) {
		named := w.Component == p.owner.Component || w.Component == p.owner.Ref.Name
		if w.Component != "" && !named {
			continue
		}
		v := decide(p.pod, nodeName)
		if v.Refusal == nil && p.owner.Strategy != daemonset.OTA {
			v = refused(ReasonNotOTA, "DaemonSet %s/%s has the update strategy %q, not OTA: its nodes are not upgraded by requests.",
				p.owner.Ref.Namespace, p.owner.Ref.Name, p.owner.Strategy)
		}
		switch {
		case w.Component == "" && v.Refusal != nil: // not among what is outdated
			continue
		case w.Component != "" && found:
			return nil, refuse(ReasonAmbiguous, "More than one DaemonSet on this node is called %s: name one by its own name, GET /v1/status lists them.", w.Component)
		case v.Refusal != nil:
			return nil, v.Refusal
		}
		found = true
		parts = append(parts, part{Component: p.owner.Component, DaemonSet: v.DaemonSet, Pod: v.Pod, Revision: v.Revision, State: Queued})
	}
	if w.Component != "" && !found {
		return nil, refuse(ReasonComponentMissing, "There is no component %.80q on this node: GET /v1/status lists them.", w.Component)
	}
	return parts, nil
}

// componentsOf words what runs on this node.
func componentsOf(s *snapshot, last func(daemonSet topsv1.NamespacedRef) *LastOperation) []Component {
	components := []Component{}
	for _, p := range placedIn(s) {
		running := describe(&p.pod.Spec, daemonset.RevisionHash(p.pod))
		c := Component{
			Component: p.owner.Component, Namespace: p.pod.Namespace, DaemonSet: p.owner.Ref.Name, Pod: p.pod.Name,
			Strategy: string(p.owner.Strategy),
			Running:  Version{Revision: running.Revision, Version: running.Version, Images: running.Images}, LastOperation: last(p.owner.Ref),
		}
		if condition := daemonset.NeedUpgrade(p.pod); condition != nil {
			c.NeedUpgrade = ptr.To(condition.Status == corev1.ConditionTrue)
		}
		if hash := newest(p.pod); hash != "" {
			c.Available = &Version{Revision: hash}
			if t := p.owner.Target; t != nil && t.Revision == hash {
				c.Available.Version, c.Available.Images = t.Version, t.Images
			}
		}
		components = append(components, c)
	}
	return components
}
