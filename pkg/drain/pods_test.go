package drain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// podOn returns a running pod of a ReplicaSet with one GCU on a node, changed by options.
func podOn(node, name string, options ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "x",
			Resources: corev1.ResourceRequirements{Limits: gcus("1")}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	ownedBy("apps/v1", "ReplicaSet")(&pod)
	for _, o := range options {
		o(&pod)
	}
	return pod
}

func pod(name string, options ...func(*corev1.Pod)) corev1.Pod { return podOn("n1", name, options...) }

func gcus(n string) corev1.ResourceList {
	return corev1.ResourceList{"enflame.com/gcu": resource.MustParse(n)}
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
	}
}

func ofDaemonSet(p *corev1.Pod) { ownedBy("apps/v1", "DaemonSet")(p) }
func unmanaged(p *corev1.Pod)   { p.OwnerReferences = nil }
func static(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}
func withoutGCU(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

func labeled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// defaultPolicy returns the default policy with a change, nil for none.
func defaultPolicy(t *testing.T, change func(*topsv1.DrainPolicy)) eviction.Policy {
	t.Helper()
	spec := eviction.DefaultPolicy()
	if change != nil {
		change(&spec)
	}
	p, err := eviction.PolicyOf(&spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
