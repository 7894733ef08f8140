// Package policystatus is the controller that reports in the status of each UpgradePolicy whether the policy is valid,
// so that users learn of a mistake at once, and not when a rollout stops because of it.
package policystatus

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
)

// reasonAccepted is the reason of condition Accepted while it is True.
const reasonAccepted = "PolicyAccepted"

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradepolicies/status,verbs=update

// Reporter writes the status of UpgradePolicies.
type Reporter struct {
	client.Client
}

// SetupWithManager adds the controller, which runs on the leader. It returns an error if the watch
// cannot be set up.
func (r *Reporter) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("policystatus").
		For(&topsv1.UpgradePolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// Reconcile writes the status of a policy if it has changed. A conflict is not an error: the newer
// policy has its own event.
func (r *Reporter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	policy := &topsv1.UpgradePolicy{}
	if err := r.Get(ctx, request.NamespacedName, policy); err != nil {
		return ctrl.Result{}, denial.IgnoreNotFound(err)
	}
	before := policy.Status.DeepCopy()
	describe(policy, observed.CheckPolicy(&policy.Spec))
	if equality.Semantic.DeepEqual(before, &policy.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Status().Update(ctx, policy); err != nil && !denial.IsGoneOrChanged(err) {
		return ctrl.Result{}, fmt.Errorf("writing the status of UpgradePolicy %s: %w", policy.Name, err)
	}
	return ctrl.Result{}, nil
}

// describe sets the status of a policy; mistake is nil for a valid policy.
func describe(policy *topsv1.UpgradePolicy, mistake error) {
	status := &policy.Status
	status.ObservedGeneration = policy.Generation
	c := metav1.Condition{Type: topsv1.PolicyAccepted, Status: metav1.ConditionTrue, Reason: reasonAccepted,
		Message: "the policy is valid", ObservedGeneration: policy.Generation}
	meta.RemoveStatusCondition(&status.Conditions, topsv1.ConditionStalled)
	if mistake != nil {
		c.Reason, c.Message = daemonset.ReasonInvalidPolicy, mistake.Error()+": no node of a rollout that names the policy is started until it is changed"
		c.Type, c.Status = topsv1.ConditionStalled, metav1.ConditionTrue
		meta.SetStatusCondition(&status.Conditions, c)
		c.Type, c.Status = topsv1.PolicyAccepted, metav1.ConditionFalse
	}
	meta.SetStatusCondition(&status.Conditions, c)
}
