package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/semaphore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/admission"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

const (
	// webhookService is the Service of the webhook, webhookConfiguration its registration at the API server
	// (config/webhook).
	webhookService       = "gcu-operator-webhook"
	webhookConfiguration = "gcu-operator-versions"
)

// webhookOptions are the flags of the webhook.
type webhookOptions struct{ addr string }

// on reports whether the webhook is served.
func (o webhookOptions) on() bool { return o.addr != "0" }

func (o *webhookOptions) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.addr, "webhook-bind-address", "0", "with config/webhook: `address` at which the API server asks whether the UpgradePolicy allows the versions of a changed GcuResource, such as :9443; 0 serves none")
}

func (o webhookOptions) validate() error {
	if _, _, err := o.hostPort(); err != nil && o.on() {
		return fmt.Errorf("--webhook-bind-address %q is not an address with a port, such as :9443: 0 turns the webhook off", o.addr)
	}
	return nil
}

func (o webhookOptions) hostPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(o.addr)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err == nil && number == 0 { // controller-runtime would take another
		err = strconv.ErrRange
	}
	return host, int(number), err
}

// server returns controller-runtime's server, which the manager starts on every replica; nil if it is off.
func (o webhookOptions) server(certificate getCertificate) webhook.Server {
	host, port, err := o.hostPort()
	if err != nil { // off, as validated
		return nil
	}
	return webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: servedWith(certificate)})
}

// add adds the webhook to a manager that has the server, unless it is off.
func (o webhookOptions) add(ctx context.Context, mgr ctrl.Manager, predictor inquiry.Predictor) error {
	if !o.on() {
		return nil
	}
	for _, kind := range inquiry.Cached() { // a manager that does not lead reads few of them itself
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("reading %T: %w", kind, err)
		}
	}
	versions := &admission.Versions{Predictor: predictor, Reader: mgr.GetCache(), Semaphore: semaphore.NewWeighted(1),
		Account: "system:serviceaccount:" + predictor.Namespace + ":" + topsv1.ManagedBy, Now: time.Now, ResponseTimeout: admission.ResponseTimeout}
	server := mgr.GetWebhookServer()
	server.Register(admission.Path, versions.Handler())
	return mgr.AddReadyzCheck("webhook", server.StartedChecker())
}
