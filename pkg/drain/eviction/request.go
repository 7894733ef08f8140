package eviction

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/denial"
)

// ResponseTo returns the outcome of an eviction from the API server's response: after a dry run that
// was accepted, the pod is due.
func ResponseTo(o Outcome, dryRun bool, err error) Outcome {
	o = Outcome{Pod: o.Pod, UID: o.UID}
	cause, refused := disruptionBudgetCause(err)
	switch {
	case err == nil && dryRun:
		o.State = Due
	case err == nil:
		o.State = Evicted
	case denial.IsGoneOrChanged(err):
		o.State = Gone // no pod of this name, or one with another UID
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

// disruptionBudgetCause returns the API server's message about the budget that refuses an
// eviction. A busy server returns the same status code without that cause, which is no
// refusal.
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

// budgetIn returns the name of the budget, which the API server only reports in the sentence
// "The disruption budget NAME needs …"; "" when the sentence is another one.
func budgetIn(cause string) string {
	rest, ok := strings.CutPrefix(cause, "The disruption budget ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// Request returns the eviction of exactly this pod, by UID; as a dry run, the API server only says
// whether it would accept it. A pod without a grace period gets one second: it would leave the API
// before a kubelet confirms that its processes have ended, and the node would look empty (invariant S8).
func Request(o Outcome, p *Policy, dryRun bool) *policyv1.Eviction {
	request := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Pod.Namespace, Name: o.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: p.gracePeriodSeconds,
			Preconditions:      &metav1.Preconditions{UID: &o.UID},
		},
	}
	if o.Graceless && p.gracePeriodSeconds == nil {
		request.DeleteOptions.GracePeriodSeconds = ptr.To(int64(1))
	}
	if dryRun {
		request.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	return request
}
