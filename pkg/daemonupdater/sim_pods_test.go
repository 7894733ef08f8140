package daemonupdater

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A DaemonSet may have two pods on a node for a while: a terminating one whose containers have
// ended and its successor, or one more than it should. A pod may also fail, as by an eviction,
// until the DaemonSet controller replaces it.

// simPodNames returns the names that pods of a DaemonSet can have on a node. The second is for a
// pod that is created while the first is there.
func simPodNames(set simapi.Key, node string) [2]simapi.Key {
	return [2]simapi.Key{simapi.Named(simPods, set.Namespace, set.Name+"-"+node), simapi.Named(simPods, set.Namespace, set.Name+"-"+node+"-second")}
}

// podsOn returns the pods on a node with the names of a DaemonSet, whoever owns them.
func (w *simWorld) podsOn(set simapi.Key, node string) []*corev1.Pod {
	return w.podsIn(w.api.Objects, set, node)
}

// podsIn returns the same of other objects, such as those that a cache shows.
func (w *simWorld) podsIn(objects map[simapi.Key]client.Object, set simapi.Key, node string) (pods []*corev1.Pod) {
	names := simPodNames(set, node)
	for _, key := range append(names[:], w.restored[names[0]]...) {
		if pod, ok := objects[key].(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// podOn returns the pod on a node with a name of a DaemonSet, of two the one that counts; nil if
// there is none.
func (w *simWorld) podOn(set simapi.Key, node string) (counts *corev1.Pod) {
	for _, pod := range w.podsOn(set, node) {
		counts = simCounting(counts, pod)
	}
	return counts
}

// simCounting returns which of two pods of one DaemonSet on a node counts; one may be nil.
func simCounting(a, b *corev1.Pod) *corev1.Pod {
	if a == nil {
		return b
	}
	return daemonset.PodOf([]*corev1.Pod{a, b})
}

// freeName returns the first name that a new pod of a DaemonSet can have on a node.
func (w *simWorld) freeName(set simapi.Key, node string) simapi.Key {
	names := simPodNames(set, node)
	if w.api.Objects[names[0]] != nil {
		return names[1]
	}
	return names[0]
}

// simEnded reports whether the containers of a pod have ended for good.
func simEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// endPod ends the containers of a terminating pod. If it has finalizers it stays, in some seeds as
// one that has ended.
func (w *simWorld) endPod(pod *corev1.Pod) {
	switch {
	case len(pod.Finalizers) == 0:
		w.api.Remove(simapi.KeyOf(pod))
	case w.accidents != nil && daemonset.NodeName(pod) != w.stuck && !simEnded(pod) && w.hash("ended", pod.UID)%2 == 0:
		simapi.Edit(w.api, simapi.KeyOf(pod), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	}
}

// evictPod lets a kubelet evict a pod: it stays, and has failed.
func (w *simWorld) evictPod(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || simEnded(pod) {
		return
	}
	w.say("pod %s is evicted by its kubelet", pod.Name)
	w.setPodReady(pod, corev1.ConditionFalse, w.host(pod.Spec.NodeName).clock(w))
	simapi.Edit(w.api, simapi.KeyOf(pod), func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
}

// addSurplus lets a stale DaemonSet controller create a second pod beside one.
func (w *simWorld) addSurplus(pod *corev1.Pod) {
	owner := simOwner(pod)
	ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, pod.Namespace, owner.Name))
	node := daemonset.NodeName(pod)
	if ds == nil || ds.UID != owner.UID || len(w.podsOn(simapi.KeyOf(ds), node)) > 1 {
		return
	}
	w.say("the DaemonSet controller creates a second pod beside %s", pod.Name)
	w.api.Put(w.admit(w.newPod(ds, node, w.newestHash(ds))))
}

// simOwner returns the DaemonSet that controls a pod. That of an orphan is known by its name only; it is nil for the pod
// of a user.
func simOwner(pod *corev1.Pod) *metav1.OwnerReference {
	owner := daemonset.Owner(pod)
	if owner == nil && pod.Labels[simApp] != "" {
		return &metav1.OwnerReference{Name: pod.Labels[simApp]}
	}
	return owner
}

// isOwned reports whether the DaemonSet of a pod is there, and is not another one of that name. It adopts an orphan.
func (w *simWorld) isOwned(pod *corev1.Pod) bool {
	owner := simOwner(pod)
	ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, pod.Namespace, owner.Name))
	return ds != nil && (ds.UID == owner.UID || owner.UID == "")
}
