package ota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// verdict says whether a pod may be asked for: Refusal is nil when it may, and
// the other fields are set only then.
type verdict struct {
	Refusal   *Refusal
	DaemonSet topsv1.NamespacedRef
	Pod       topsv1.NamespacedRef
	Revision  string
}

// decide reports whether the person at nodeName may ask for an upgrade of the
// pod: it runs there, stays, is owned by a DaemonSet, and its condition
// PodNeedUpgrade is True (contract statement 100).
func decide(pod *corev1.Pod, nodeName string) verdict {
	if pod.Spec.NodeName != nodeName {
		return refused(ReasonOtherNode, "Pod %s/%s does not run on this node (%s): ask on the node it runs on, kubectl -n %s get pod %s -o wide shows it.",
			pod.Namespace, pod.Name, nodeName, pod.Namespace, pod.Name)
	}
	if pod.DeletionTimestamp != nil {
		return refused(ReasonTerminating, "Pod %s/%s is being deleted already: wait for its successor, GET /pods shows it.", pod.Namespace, pod.Name)
	}
	owner := daemonset.Owner(pod)
	if owner == nil {
		return refused(ReasonNotDaemonSet, "Pod %s/%s is not owned by a DaemonSet: only pods of a DaemonSet can be upgraded here.", pod.Namespace, pod.Name)
	}
	revision, refusal := wantedRevision(pod)
	if refusal != nil {
		return verdict{Refusal: refusal}
	}
	return verdict{
		DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID},
		Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Revision:  revision,
	}
}

// wantedRevision returns the hash of the newest revision from the condition
// PodNeedUpgrade, or why there is none.
func wantedRevision(pod *corev1.Pod) (string, *Refusal) {
	condition := daemonset.NeedUpgrade(pod)
	if condition == nil {
		return "", refuse(ReasonNotNeeded,
			"Pod %s/%s has no condition %s: its DaemonSet must have the update strategy OTA, and the operator must have seen it.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade)
	}
	if condition.Status != corev1.ConditionTrue {
		return "", refuse(ReasonNotNeeded, "Pod %s/%s has condition %s=%s: it runs the newest revision, there is nothing to upgrade.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade, condition.Status)
	}
	revision, found := strings.CutPrefix(condition.Message, topsv1.PodNeedUpgradeMessagePrefix)
	if !found || revision == "" || len(validation.IsValidLabelValue(revision)) > 0 {
		return "", refuse(ReasonNotNeeded, "Pod %s/%s has condition %s=True, but its message does not name a revision as \"%s<hash>\": wait until the operator has written it anew.",
			pod.Namespace, pod.Name, topsv1.PodNeedUpgrade, topsv1.PodNeedUpgradeMessagePrefix)
	}
	return revision, nil
}

func refused(reason Reason, format string, args ...any) verdict {
	return verdict{Refusal: refuse(reason, format, args...)}
}

// validateNames refuses what cannot be a namespace or a pod, before anything
// is asked of the API server.
func validateNames(namespace, pod string) *Refusal {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return refuse(ReasonMalformed, "Malformed namespace %.80q: %s.", namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(pod); len(problems) > 0 {
		return refuse(ReasonMalformed, "Malformed pod name %.80q: %s.", pod, problems[0])
	}
	return nil
}
