package eviction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// accepted returns the evictions that were accepted, with when the deletion of the pod began if it is
// seen to terminate.
func (a Attempts) accepted(pods []Pod) Attempts {
	found := Attempts{}
	for uid, of := range a {
		if of.Outcome.State == Evicted {
			found[uid] = of
		}
	}
	for i := range pods {
		if of, evicted := found[pods[i].UID]; evicted && pods[i].DeletionTimestamp != nil {
			of.Outcome.Since = deletedAt(pods[i].Pod)
			found[pods[i].UID] = of
		}
	}
	return found
}

// blockedBy returns why the eviction of a pod is in vain: its controller has brought it to the cordoned node in
// the place of one that was evicted, and would bring the next one too. "" if that is not known.
func (a Attempts) blockedBy(pod *Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Stays != "" || owner == nil { // see staying for those of DaemonSets
		return ""
	}
	for uid, of := range a {
		if of.Outcome.State == Evicted && of.Controllers[uid] == owner.UID && of.precedes(pod.Pod) {
			return fmt.Sprintf("%s %s brings its pods back to the cordoned node: remove their toleration of taint %s, or their spec.nodeName, "+
				"exclude the node, or leave the pods out (drain.podSelector)", owner.Kind, owner.Name, corev1.TaintNodeUnschedulable)
		}
	}
	return ""
}

// precedes reports whether a pod came to the node after the eviction, and was not only bound at the moment of the cordon:
// such a pod is older than the deletion of the evicted one, unless it is not known when that was.
func (a Attempt) precedes(pod *corev1.Pod) bool {
	_, present := a.Controllers[pod.UID]
	return !present && (daemonset.ToleratesCordon(&pod.Spec) || !pod.CreationTimestamp.Time.Before(a.Outcome.Since))
}

// controllersOf returns Result.Controllers.
func controllersOf(pods []Pod) map[types.UID]types.UID {
	controllers := map[types.UID]types.UID{}
	for i := range pods {
		controllers[pods[i].UID] = ""
		if owner := metav1.GetControllerOfNoCopy(pods[i].Pod); owner != nil {
			controllers[pods[i].UID] = owner.UID
		}
	}
	return controllers
}
