package servingcert

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
	if published(t, c) == old || strings.Count(r.log.String(), "Giving the CA to the webhook") != 3 {
		t.Errorf("logged %s", r.log)
	}
	cancel()
	check(t, <-ended)
}
