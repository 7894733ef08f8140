package gating

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// maxName leaves room for a hash in the name of a pod.
const maxName = 200

// NameOf returns the name of the pod that is created in place of one at the gate. It is always the same, so that the pod
// is created once.
func NameOf(daemonSet string, gated types.UID) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(gated)) // never fails
	return daemonSet[:min(len(daemonSet), maxName)] + "-" + strconv.FormatUint(h.Sum64(), 36)
}

// podOf returns a pod as the DaemonSet controller would have created it from a template, bound to the node: the
// DaemonSet controller keeps a pod that is scheduled rather than one at the gate.
func podOf(w Waiting, template *corev1.PodTemplateSpec, hash string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.DaemonSet.Namespace, Name: NameOf(w.DaemonSet.Name, w.Pod.UID),
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations), Finalizers: slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.DaemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	pod.OwnerReferences[0].BlockOwnerDeletion = nil // some clusters require a right to the DaemonSet's finalizers
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	pod.Spec.NodeName = daemonset.NodeName(w.Pod)
	pod.Spec.Tolerations = append(slices.Clone(template.Spec.Tolerations), daemonset.ImplicitTolerations(&template.Spec)...)
	return pod
}
