package eviction

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Pod is a pod in the scope of a drain, with the verdict of kubectl's drain filters.
type Pod struct {
	*corev1.Pod
	// Stays is why kubectl would leave the pod: it belongs to a DaemonSet or is static. "" when it
	// may be evicted.
	Stays string
	// DaemonSet that the pod belongs to, nil when there is none or it was not looked up.
	DaemonSet *appsv1.DaemonSet
	// Unknown is why there is no verdict: the DaemonSet could not be looked up, or a ResourceClaim
	// could not be read.
	Unknown string
	// LosesData and LosesPod are what an eviction loses: emptyDir volumes, and the pod itself
	// if no controller recreates it. "" when nothing.
	LosesData, LosesPod string
	// accelerator: the pod uses it, as far as known.
	accelerator bool
}

// staying returns the state of a pod that kubectl's filters leave on the node, the reason, and whether
// it leaves later; no state for a pod that is to be evicted nevertheless.
func staying(pod *Pod, p *Policy) (s State, reason string, later bool) {
	switch ds := pod.DaemonSet; {
	case pod.Stays == "":
		return "", "", false
	case !p.replacesDriver || p.isOwn(ds):
		return Skipped, pod.Stays, false
	case pod.Unknown != "":
		return Failed, pod.Unknown, false
	case !pod.accelerator:
		return Skipped, pod.Stays, false
	case ds == nil && !isStatic(pod.Pod):
		owner := metav1.GetControllerOf(pod.Pod)
		return Blocked, fmt.Sprintf("uses the accelerator, and %s %s %s would bring it back: "+
			"delete it or keep it off the node, exclude the node, or leave the pod out (drain.podSelector)", owner.APIVersion, owner.Kind, owner.Name), false
	case ds == nil:
		return Blocked, "static, and uses the accelerator: remove its manifest from the node, exclude the node, or leave the pod out (drain.podSelector)", false
	case daemonset.ToleratesClosing(ds):
		return Blocked, fmt.Sprintf("uses the accelerator, and DaemonSet %s/%s tolerates taint %s, so it would come back: "+
			"remove the toleration, exclude the node, or leave the pod out (drain.podSelector)", ds.Namespace, ds.Name, topsv1.TaintDriverUpgrade), false
	case !p.closed && blockedBy(pod, p) == "":
		return Skipped, "evicted once the node has the driver-upgrade taint", true
	}
	return "", "", false
}

func (p *Policy) isOwn(ds *appsv1.DaemonSet) bool { return ds != nil && p.own[ds.UID] }

// Users returns the names of pods, as namespace/name, without those of the operator's own DaemonSets.
func Users(pods []Pod, p Policy) (names []string) {
	for i := range pods {
		if !p.isOwn(pods[i].DaemonSet) {
			names = append(names, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	return names
}

// NamesByProcess is Users by ProcessUID.
func NamesByProcess(pods []Pod, p Policy) map[string]string {
	names := map[string]string{}
	for i := range pods {
		for _, name := range Users(pods[i:i+1], p) {
			names[ProcessUID(pods[i].Pod)] = name
		}
	}
	return names
}

// ProcessUID returns the UID under which the processes of a pod run: of a static pod it is not that
// of the object.
func ProcessUID(pod *corev1.Pod) string {
	if uid, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return uid
	}
	return string(pod.UID)
}

// ofDaemonSet reports whether kubectl takes a pod for one of a DaemonSet: it looks at the kind alone.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

func isStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// blockedBy returns what an eviction would lose that the policy protects, "" for nothing.
func blockedBy(pod *Pod, p *Policy) string {
	var kept []string
	if pod.LosesData != "" && !p.deleteEmptyDir {
		kept = append(kept, fmt.Sprintf("%s (drain.emptyDir: %s evicts them)", pod.LosesData, topsv1.DrainDelete))
	}
	if pod.LosesPod != "" && !p.deleteUnmanaged {
		kept = append(kept, fmt.Sprintf("%s (drain.unmanaged: %s evicts them)", pod.LosesPod, topsv1.DrainDelete))
	}
	return strings.Join(kept, ", ")
}
