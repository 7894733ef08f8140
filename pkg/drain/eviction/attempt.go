package eviction

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// carriedFor is how long a drain takes into account what controllers did in earlier drains of its node: after that there may be room on another node.
const carriedFor = 24 * time.Hour

// accepted returns the evictions that were accepted, with when the deletion of the pod began if it is
// seen to terminate, and whether another one has come back.
func (a Attempts) accepted(pods []Pod) Attempts {
	found := Attempts{}
	for uid, of := range a {
		if of.Outcome.State == Evicted {
			found[uid] = of
		}
	}
	for i := range pods {
		if of, evicted := found[pods[i].UID]; evicted && pods[i].DeletionTimestamp != nil {
			of.Outcome.Since = daemonset.DeletedAt(pods[i].Pod)
			found[pods[i].UID] = of
		}
		if uid, back := found.predecessor(&pods[i]); back {
			of := found[uid]
			of.Returned = true
			found[uid] = of
		}
	}
	return found
}

// Carried returns what counts in the next drain of the node: the evictions of the last day after which the controller brought a pod back.
func (a Attempts) Carried(now time.Time) Attempts {
	found := Attempts{}
	for uid, of := range a {
		if of.Returned && now.Sub(of.Time) <= carriedFor {
			of.Earlier = true
			found[uid] = of
		}
	}
	return found
}

// blockedBy returns why the eviction of a pod is futile: its controller created it on the cordoned node in
// place of an evicted one, and would do so again. "" if that is not known.
func (a Attempts) blockedBy(pod *Pod) string {
	if _, back := a.predecessor(pod); !back {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return fmt.Sprintf("%s %s brings its pods back to the cordoned node: remove their toleration of taint %s, or their spec.nodeName, "+
		"exclude the node, or leave the pods out (drain.podSelector)", owner.Kind, owner.Name, corev1.TaintNodeUnschedulable)
}

// predecessor returns the evicted pod in whose place a pod came to the cordoned node, false if there is none.
func (a Attempts) predecessor(pod *Pod) (types.UID, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Stays != "" || owner == nil { // see staying for those of DaemonSets
		return "", false
	}
	for uid, of := range a {
		if of.Outcome.State == Evicted && of.Controllers[uid] == owner.UID && of.precedes(pod.Pod) {
			return uid, true
		}
	}
	return "", false
}

// precedes reports whether a pod came to the node after the eviction, and was not only bound at the moment of the cordon:
// such a pod is older than the deletion of the evicted one, unless it is not known when that was. In a later drain, pods that
// do not tolerate the cordon may have come while the node was in service.
func (a Attempt) precedes(pod *corev1.Pod) bool {
	_, present := a.Controllers[pod.UID]
	return !present && (daemonset.ToleratesCordon(&pod.Spec) || !a.Earlier && !pod.CreationTimestamp.Time.Before(a.Outcome.Since))
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
