package harness

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BehaviourLabel says what the test cluster does with a pod on a simulated node.
const BehaviourLabel = "testcluster/behaviour"

// Crash makes the pods of a version crash-loop on simulated nodes, because the templates of a gr
// cannot have the label that the cluster reads. It returns when new pods do. The function that it
// returns ends that; it is never nil.
func (c *Cluster) Crash(ctx context.Context, version string) (end func() error, err error) {
	name := "crash-" + version
	objects := []client.Object{
		&admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}},
			MatchConditions:    []admissionv1.MatchCondition{{Name: "bad", Expression: fmt.Sprintf("object.spec.containers.exists(c, c.image.endsWith(':%s'))", version)}},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
				Expression: fmt.Sprintf(`Object{metadata: Object.metadata{labels: {%q: "crash-loop"}}}`, BehaviourLabel)}}},
			FailurePolicy: ptr.To(admissionv1.Fail),
		}},
		&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}},
	}
	end = func() error {
		var failed []error
		for _, o := range objects {
			failed = append(failed, client.IgnoreNotFound(c.Client.Delete(context.WithoutCancel(ctx), o)))
		}
		return errors.Join(failed...)
	}
	for _, o := range objects {
		if err := c.Client.Create(ctx, o); err != nil {
			return end, err
		}
	}
	return end, Eventually(ctx, func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:" + version}}}}
		if err := c.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Labels[BehaviourLabel] == "" {
			return fmt.Errorf("policy %s is not in force", name)
		}
		return nil
	})
}
