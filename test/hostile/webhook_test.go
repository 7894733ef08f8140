package hostile

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/apiserver"
)

// With config/webhook the manager changes one webhook configuration, and creates or deletes none.
func TestTheTokenOfTheManagerChangesItsOwnWebhookOnly(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	check(t, admissionv1.AddToScheme(s.Scheme))
	ctx := t.Context()
	named := func(name string) *admissionv1.ValidatingWebhookConfiguration {
		return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	own, other := named("gcu-operator-versions"), named("policy-of-others")
	for _, o := range []client.Object{own, other} {
		check(t, admin.Create(ctx, o.DeepCopyObject().(client.Object)))
		t.Cleanup(func() { check(t, admin.Delete(context.Background(), o)) })
	}
	const labeled = `{"metadata":{"labels":{"a":"b"}}}`
	allowed(t, "write the CA", func() error { return merge(ctx, manager, own, labeled) })
	allForbidden(t, map[string]func() error{
		"change another": func() error { return merge(ctx, manager, other, labeled) },
		"create another": func() error { return manager.Create(ctx, named("mine"), client.DryRunAll) },
		"delete its own": func() error { return manager.Delete(ctx, own, client.DryRunAll) },
		"change one that mutates": func() error {
			return merge(ctx, manager, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: own.Name}}, labeled)
		},
	})
}
