package servingcert

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The API server is given the CA, again when a tool took it away, and the next one when there is another.
func TestTheWebhookHasTheCA(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	r := newReplica(c)
	r.Webhook = "versions"
	if r.Refresh(t.Context()) || !strings.Contains(r.log.String(), "config/webhook") {
		t.Errorf("without a configuration it logs %s", r.log)
	}
	url := ptr.To("https://gum.svc")
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Webhook},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "a", ClientConfig: admissionv1.WebhookClientConfig{URL: url}}, {Name: "b"}}}
	check(t, c.Create(t.Context(), configuration))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	has := func(when string) {
		t.Helper()
		awaitTimer(r)
		check(t, c.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))
		for _, webhook := range configuration.Webhooks {
			if ca := string(webhook.ClientConfig.CABundle); ca != published(t, c) || webhook.Name == "a" && webhook.ClientConfig.URL == nil {
				t.Errorf("%s webhook %s has %q: %s", when, webhook.Name, ca, r.log)
			}
		}
	}
	has("at first")
	configuration.Webhooks[1].ClientConfig.CABundle = nil
	check(t, c.Update(t.Context(), configuration))
	r.clock.Step(retryAfter)
	has("after a tool has applied it again")
	old := published(t, c)
	check(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}))
	r.clock.Step(retryAfter)
	has("with another CA")
	if published(t, c) == old || strings.Count(r.log.String(), "Gave the CA to the webhook") != 3 {
		t.Errorf("logged %s", r.log)
	}
	cancel()
	check(t, <-ended)
}

// Without the right to change webhook configurations, an administrator writes the CA, and the log says so once.
func TestAnAdministratorMayGiveTheCA(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "versions", errors.New("no right"))
	for _, verb := range []string{"get", "patch"} {
		configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "versions"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "a"}}}
		c := fake.NewClientBuilder().WithObjects(configuration).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if key.Name == "versions" && verb == "get" {
					return denied
				}
				return c.Get(ctx, key, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if o.GetName() == "versions" && verb == "patch" {
					return denied
				}
				return c.Patch(ctx, o, patch, options...)
			}}).Build()
		r := newReplica(c)
		r.Webhook = "versions"
		for range 3 {
			if !r.Refresh(t.Context()) {
				t.Errorf("without the right to %s: %s", verb, r.log)
			}
		}
		if said := strings.Count(r.log.String(), "An administrator has to give the CA"); said != 1 || strings.Contains(r.log.String(), "Cannot keep") {
			t.Errorf("without the right to %s it says so %d times: %s", verb, said, r.log)
		}
	}
}
