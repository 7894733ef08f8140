package component

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// volcanoHook is one webhook: path is /resource/action, as the webhook manager
// serves it.
type volcanoHook struct {
	resource, action string
	group, version   string
	operations       []admissionv1.OperationType
}

// volcanoHooks lists the webhooks. All that create are mutated; what users may
// change is validated again.
func volcanoHooks() []volcanoHook {
	create := []admissionv1.OperationType{admissionv1.Create}
	change := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	remove := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	return []volcanoHook{
		{"jobs", "mutate", "batch.volcano.sh", "v1alpha1", create},
		{"podgroups", "mutate", "scheduling.volcano.sh", "v1beta1", create},
		{"pods", "mutate", "", "v1", create},
		{"queues", "mutate", "scheduling.volcano.sh", "v1beta1", create},
		{"jobs", "validate", "batch.volcano.sh", "v1alpha1", change},
		{"pods", "validate", "", "v1", create},
		{"queues", "validate", "scheduling.volcano.sh", "v1beta1", remove},
	}
}

// volcanoWebhooks returns one configuration per webhook. The webhook manager
// adds its certificate to them, which is not ours. They refuse when nobody
// answers, except in the namespaces without which nothing comes up again.
func volcanoWebhooks(namespace string) []object {
	spared := []string{"kube-system", namespace}
	slices.Sort(spared)
	everywhereElse := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: slices.Compact(spared),
	}}}
	var list []object
	for _, h := range volcanoHooks() {
		rules := []admissionv1.RuleWithOperations{{
			Operations: h.operations,
			Rule: admissionv1.Rule{APIGroups: []string{h.group}, APIVersions: []string{h.version},
				Resources: []string{h.resource}, Scope: ptr.To(admissionv1.AllScopes)},
		}}
		address := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
			Namespace: namespace, Name: volcanoService, Path: ptr.To("/" + h.resource + "/" + h.action), Port: ptr.To[int32](443)}}
		name := h.action + strings.TrimSuffix(h.resource, "s") + ".volcano.sh"
		meta := metaOf("", volcanoService+"-"+h.resource+"-"+h.action, volcanoAdmission)
		if h.action == "mutate" {
			list = append(list, &admissionv1.MutatingWebhookConfiguration{
				TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"}, ObjectMeta: meta,
				Webhooks: []admissionv1.MutatingWebhook{{Name: name, ClientConfig: address, Rules: rules, NamespaceSelector: everywhereElse,
					FailurePolicy: ptr.To(admissionv1.Fail), SideEffects: ptr.To(admissionv1.SideEffectClassNoneOnDryRun),
					TimeoutSeconds: ptr.To[int32](10), AdmissionReviewVersions: []string{"v1"}}},
			})
			continue
		}
		list = append(list, &admissionv1.ValidatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: meta,
			Webhooks: []admissionv1.ValidatingWebhook{{Name: name, ClientConfig: address, Rules: rules, NamespaceSelector: everywhereElse,
				FailurePolicy: ptr.To(admissionv1.Fail), SideEffects: ptr.To(admissionv1.SideEffectClassNoneOnDryRun),
				TimeoutSeconds: ptr.To[int32](10), AdmissionReviewVersions: []string{"v1"}}},
		})
	}
	return list
}
