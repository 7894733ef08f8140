package component

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Leaving returns the desired state of a DaemonSet that a gr no longer requests, so that its pods leave
// their nodes one by one (docs/adr/0014): it is unchanged, except that its new pods never start and that
// it has the upgrade settings of the gr. revision is the name of the revision of the gr's spec.
func Leaving(gr *topsv1.GcuResource, revision string, live *appsv1.DaemonSet) (Desired, error) {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name, Labels: live.Labels, OwnerReferences: live.OwnerReferences},
		Spec:       *live.Spec.DeepCopy(),
	}
	ds.SetGroupVersionKind(DaemonSetKind)
	ds.Annotations = maps.Clone(live.Annotations)
	for _, key := range append([]string{appsv1.DeprecatedTemplateGeneration}, carried...) {
		delete(ds.Annotations, key)
	}
	maps.Copy(ds.Annotations, UpgradeAnnotations(gr))
	ds.Annotations[topsv1.AnnotationRevision] = revision
	if !daemonset.IsLeaving(ds) {
		ds.Spec.Template.Spec.SchedulingGates = append(ds.Spec.Template.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: topsv1.GateRemoved})
	}
	return desired(ds)
}

// WithAntiAffinity returns the DaemonSet of a component that takes over from leaving DaemonSets, with an
// anti-affinity to their pods: on each node the scheduler starts its pod only when theirs is gone.
// predecessors are their namespace/name, none if they are gone; live is the existing DaemonSet, nil before
// it is created. Without predecessors, d is returned unchanged, unless live has the anti-affinity already:
// then it is kept until the template changes anyway, because removing it would replace all pods.
func WithAntiAffinity(d Desired, live *appsv1.DaemonSet, predecessors []string) (Desired, error) {
	template, _, err := unstructured.NestedMap(d.Object.Object, "spec", "template")
	if err != nil {
		return d, fmt.Errorf("reading the template of %s: %w", d.Ref, err)
	}
	hash, err := hashOf(template)
	if err != nil {
		return d, err
	}
	names := predecessors
	if live != nil {
		var made string
		if names, made = daemonset.SuccessorOf(live.Annotations[topsv1.AnnotationSuccessorOf]); len(predecessors) == 0 && made != hash {
			names = nil
		}
	}
	if len(names) == 0 {
		return d, nil
	}
	d.Object = d.Object.DeepCopy()
	if err := keepApart(d.Object.Object, names); err != nil {
		return d, fmt.Errorf("keeping %s from its predecessors: %w", d.Ref, err)
	}
	annotations := d.Object.GetAnnotations()
	annotations[topsv1.AnnotationSuccessorOf] = strings.Join(names, ",") + ";" + hash
	d.Object.SetAnnotations(annotations)
	d.Hash, err = hashOf(d.Object.Object)
	return d, err
}

// keepApart adds an anti-affinity to the template of a DaemonSet: its pods are not scheduled on a node with
// pods of the others.
func keepApart(ds map[string]any, others []string) error {
	path := []string{"spec", "template", "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"}
	terms, _, err := unstructured.NestedSlice(ds, path...)
	if err != nil {
		return err
	}
	for _, other := range others {
		namespace, name, _ := strings.Cut(other, "/")
		terms = append(terms, map[string]any{
			"labelSelector": map[string]any{"matchLabels": map[string]any{LabelName: name}},
			"namespaces":    []any{namespace},
			"topologyKey":   corev1.LabelHostname,
		})
	}
	return unstructured.SetNestedSlice(ds, terms, path...)
}

// IsLeavingUnder reports whether a DaemonSet is leaving its nodes and has the current upgrade settings of its gr.
func IsLeavingUnder(gr *topsv1.GcuResource, ds *appsv1.DaemonSet) bool {
	for _, key := range carried {
		if gr.Annotations[key] != ds.Annotations[key] {
			return false
		}
	}
	return daemonset.IsLeaving(ds)
}
