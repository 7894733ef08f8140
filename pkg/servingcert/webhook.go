package servingcert

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/denial"
)

// giveTo writes the CA into a webhook configuration: config/webhook has it, with the right. Without the right it returns
// a Forbidden error.
func giveTo(ctx context.Context, c client.Client, name string, public []byte, log logr.Logger) error {
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
		return fmt.Errorf("reading the webhook configuration, which is in config/webhook: %w", err)
	}
	before, due := configuration.DeepCopy(), false
	for i := range configuration.Webhooks {
		config := &configuration.Webhooks[i].ClientConfig
		due = due || !bytes.Equal(config.CABundle, public)
		config.CABundle = public
	}
	if !due {
		return nil
	}
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	err := c.Patch(ctx, configuration, patch)
	if denial.IsConflict(err) {
		return nil // the next time
	}
	if err != nil {
		return fmt.Errorf("giving the CA to the webhook: %w", err)
	}
	log.Info("Gave the CA to the webhook", "ValidatingWebhookConfiguration", name)
	return nil
}
