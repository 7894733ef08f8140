package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

func withoutGCU(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

func withHostPath(path string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
}

func withEnv(name, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
	}
}

func labeled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// terminatingSince sets the deletion of a pod, with a grace period of half a minute.
func terminatingSince(at time.Time) func(*corev1.Pod) { return terminatingFor(30*time.Second, at) }

// terminatingFor marks a pod as being deleted since a time, with this grace period.
func terminatingFor(grace time.Duration, at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(at.Add(grace)))
		p.DeletionGracePeriodSeconds = ptr.To(int64(grace.Seconds()))
	}
}

// decide returns the pods to evict, and the outcomes of the others.
func decide(f Facts, p Policy, attempts Attempts, since Start, now time.Time) (evict []string, r Result) {
	leave, r := Decide(f, p, attempts, since, now)
	for _, o := range leave {
		if o.State != "" {
			r.add(o, nil)
			continue
		}
		evict = append(evict, o.Pod.Name)
	}
	return evict, r
}
