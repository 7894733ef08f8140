package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/servingcert"
)

// newCertificates returns what keeps the certificate of the REST API, the metrics and the webhook.
func newCertificates(config *rest.Config, o options, log logr.Logger) (*servingcert.Keeper, error) {
	live, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client for the certificates: %w", err)
	}
	keeper := &servingcert.Keeper{Client: live, Namespace: o.namespace, Names: o.servingNames(), Clock: clock.RealClock{}, Log: log.WithName("certificates")}
	if o.webhook.on() {
		keeper.Webhook = webhookConfiguration
	}
	return keeper, nil
}

// servingNames returns the names and addresses in the certificate: those of the Services, and of this pod and
// its node as far as its environment has them.
func (o options) servingNames() []string {
	return slices.Concat(o.apiHosts(), namesOf(metricsService, o.namespace), namesOf(webhookService, o.namespace), []string{"localhost", "127.0.0.1", "::1", os.Getenv("HOST_IP"), os.Getenv("POD_IP")})
}

// keepsCertificates reports whether something is served over TLS without a certificate of the user.
func (o options) keepsCertificates() bool {
	metrics := o.metrics.addr != "0" && o.metrics.secure && o.metrics.certDir == ""
	return metrics || o.webhook.on() || o.upgradeAPI.on() && o.upgradeAPI.auth == authToken && o.upgradeAPI.certDir == ""
}
