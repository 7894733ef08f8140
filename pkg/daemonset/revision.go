package daemonset

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const podNeedUpgrade = topsv1.PodNeedUpgrade

// RevisionHash returns the controller-revision-hash label of a pod or a
// ControllerRevision, "" when absent.
func RevisionHash(object metav1.Object) string {
	return object.GetLabels()[appsv1.ControllerRevisionHashLabelKey]
}

// TargetRevision returns the hash of the newest ControllerRevision owned by the DaemonSet
// (by UID). The hash is read, never computed (design section 3). It returns an error if the
// DaemonSet controller has not observed the newest template, or has made no
// ControllerRevision, yet.
func TargetRevision(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) (string, error) {
	if ds.Status.ObservedGeneration != ds.Generation {
		return "", fmt.Errorf("the DaemonSet controller has observed generation %d of %s/%s, not yet %d",
			ds.Status.ObservedGeneration, ds.Namespace, ds.Name, ds.Generation)
	}
	var newest *appsv1.ControllerRevision
	for _, r := range revisions {
		if metav1.IsControlledBy(r, ds) && (newest == nil || r.Revision > newest.Revision) {
			newest = r
		}
	}
	if newest == nil || RevisionHash(newest) == "" {
		return "", fmt.Errorf("DaemonSet %s/%s has no ControllerRevision yet", ds.Namespace, ds.Name)
	}
	return RevisionHash(newest), nil
}

// RevisionOf returns the ControllerRevision with a hash, nil if there is none.
func RevisionOf(revisions []*appsv1.ControllerRevision, hash string) *appsv1.ControllerRevision {
	i := slices.IndexFunc(revisions, func(r *appsv1.ControllerRevision) bool { return RevisionHash(r) == hash })
	if i < 0 {
		return nil
	}
	return revisions[i]
}

// Owner returns the DaemonSet that controls the pod, or nil; also if its name is one that no object can have, which
// whoever creates a pod may write there. The result is part of the pod and must not be modified.
func Owner(pod *corev1.Pod) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "DaemonSet" || ref.APIVersion != appsv1.SchemeGroupVersion.String() || len(content.IsPathSegmentName(ref.Name)) > 0 {
		return nil
	}
	return ref
}

// TemplateOf returns the pod template that a ControllerRevision of a DaemonSet holds: its data has the
// form {"spec":{"template":{…,"$patch":"replace"}}}.
func TemplateOf(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if data.Spec.Template == nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s holds no pod template", revision.Namespace, revision.Name)
	}
	return data.Spec.Template, nil
}
