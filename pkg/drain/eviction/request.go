package eviction

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ResponseTo says what the API server's response to an eviction means for the pod.
func ResponseTo(o Outcome, err error) Outcome {
	cause, refused := disruptionBudgetCause(err)
	switch {
	case err == nil:
		o.State = Evicted
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		o.State = Gone // the UID is another one: a pod that came after it, or none
	case refused:
		o.State, o.Reason = Refused, cause
		o.Budget = types.NamespacedName{Namespace: o.Pod.Namespace, Name: budgetIn(cause)}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		o.State, o.Reason = Failed, "its namespace is being deleted, and the pod with it"
	default:
		o.State, o.Reason = Failed, err.Error()
	}
	return o
}

// disruptionBudgetCause returns what the API server says about the budget that
// refuses an eviction. A server that is too busy answers with the same code and
// without such a cause: that is no refusal.
func disruptionBudgetCause(err error) (string, bool) {
	var status apierrors.APIStatus
	if !apierrors.IsTooManyRequests(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return "", false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause {
			return c.Message, true
		}
	}
	return "", false
}

// budgetIn finds the name of the budget: the API server says it in the sentence
// "The disruption budget NAME needs …" only. "" when the sentence is another one.
func budgetIn(cause string) string {
	rest, ok := strings.CutPrefix(cause, "The disruption budget ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// Request asks for a pod to leave: this very pod, not one of its name.
func Request(o Outcome, p *Policy) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Pod.Namespace, Name: o.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: p.gracePeriodSeconds,
			Preconditions:      &metav1.Preconditions{UID: &o.UID},
		},
	}
}
