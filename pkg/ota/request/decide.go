package request

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Decide returns the request for the upgrade of a pod, without id and time, if it may be
// requested on nodeName: the pod runs there, is not terminating, is owned by a DaemonSet,
// and its condition PodNeedUpgrade is True (contract statement 100).
func Decide(pod *corev1.Pod, nodeName string) (topsv1.UpgradeRequest, *Refusal) {
	wanted, refusal := requestFor(pod, nodeName)
	if refusal == nil {
		wanted.Revision, refusal = wantedRevision(pod)
	}
	return wanted, refusal
}

// decideBack returns the request for the revision previous to that of a pod, without id and time. Whether there is one is
// the operator's to say.
func decideBack(pod *corev1.Pod, nodeName string) (topsv1.UpgradeRequest, *Refusal) {
	wanted, refusal := requestFor(pod, nodeName)
	wanted.Revision, wanted.Rollback = daemonset.RevisionHash(pod), true
	return wanted, refusal
}

// requestFor returns a request for a pod, without a revision, if there may be one on nodeName.
func requestFor(pod *corev1.Pod, nodeName string) (topsv1.UpgradeRequest, *Refusal) {
	if pod.Spec.NodeName != nodeName {
		return topsv1.UpgradeRequest{}, Refuse(ReasonOtherNode, "Pod %s/%s does not run on this node (%s): send the request on the node it runs on, kubectl -n %s get pod %s -o wide shows it.",
			pod.Namespace, pod.Name, nodeName, pod.Namespace, pod.Name)
	}
	if pod.DeletionTimestamp != nil {
		return topsv1.UpgradeRequest{}, Refuse(ReasonTerminating, "Pod %s/%s is being deleted already: wait for its successor, GET /pods shows it.", pod.Namespace, pod.Name)
	}
	owner := daemonset.Owner(pod)
	if owner == nil {
		return topsv1.UpgradeRequest{}, Refuse(ReasonNotDaemonSet, "Pod %s/%s is not owned by a DaemonSet: only pods of a DaemonSet can be upgraded here.", pod.Namespace, pod.Name)
	}
	return topsv1.UpgradeRequest{
		DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID},
		Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}, nil
}

// wantedRevision returns the hash of the newest revision from the condition
// PodNeedUpgrade, or why there is none.
func wantedRevision(pod *corev1.Pod) (string, *Refusal) {
	condition := daemonset.NeedUpgrade(pod)
	if condition == nil {
		return "", Refuse(ReasonNotNeeded,
			"Pod %s/%s has no condition %s: its DaemonSet must have the update strategy OTA, and the operator must have seen it.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade)
	}
	if condition.Status != corev1.ConditionTrue {
		return "", Refuse(ReasonNotNeeded, "Pod %s/%s has condition %s=%s: it runs the newest revision, there is nothing to upgrade.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade, condition.Status)
	}
	revision := Newest(pod)
	if revision == "" || len(validation.IsValidLabelValue(revision)) > 0 {
		return "", Refuse(ReasonNotNeeded, "Pod %s/%s has condition %s=True, but its message does not name a revision as \"%s<hash>\": wait until the operator has updated it.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade, topsv1.PodNeedUpgradeMessagePrefix)
	}
	return revision, nil
}

// Newest returns the hash of the newest revision that a pod's PodNeedUpgrade names, or "".
func Newest(pod *corev1.Pod) string {
	if condition := daemonset.NeedUpgrade(pod); condition != nil {
		if hash, found := strings.CutPrefix(condition.Message, topsv1.PodNeedUpgradeMessagePrefix); found {
			return hash
		}
	}
	return ""
}

// ValidateNames refuses names that cannot be a namespace or a pod, before any call to the
// API server.
func ValidateNames(namespace, pod string) *Refusal {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Refuse(ReasonMalformed, "Malformed namespace %.80q: %s.", namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(pod); len(problems) > 0 {
		return Refuse(ReasonMalformed, "Malformed pod name %.80q: %s.", pod, problems[0])
	}
	return nil
}
