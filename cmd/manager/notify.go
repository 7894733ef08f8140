package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // the image has no CAs
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/topsops/gcu-operator/pkg/daemonupdater"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/notifier"
)

// notifyOptions are the flags of the notifications.
type notifyOptions struct {
	url        string
	secretFile string
	caFile     string
}

func (o *notifyOptions) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.url, "notify-url", "", "`URL` of a webhook that is sent a CloudEvent when a rollout is halted, waits for an approval, is complete or was rolled back; empty: none")
	flags.StringVar(&o.secretFile, "notify-secret-file", "", "`file` with the secret of the signatures of --notify-url, as in Standard Webhooks: whsec_ and 24 to 64 bytes in base64; more lines are more secrets, all of which sign")
	flags.StringVar(&o.caFile, "notify-ca-file", "", "`file` with CAs in PEM that the webhook of --notify-url is trusted by, besides those of the system, or those of Mozilla where it has none")
}

func (o notifyOptions) validate() error {
	switch {
	case o.url == "" && (o.secretFile != "" || o.caFile != ""):
		return errors.New("--notify-secret-file and --notify-ca-file are for --notify-url: set that too")
	case o.url != "" && o.secretFile == "":
		return errors.New("--notify-url needs --notify-secret-file: notifications are signed")
	}
	return nil
}

// addNotifier returns what delivers notifications, nil without a webhook.
func addNotifier(mgr ctrl.Manager, o notifyOptions) (daemonupdater.Notices, error) {
	if o.url == "" {
		return nil, nil
	}
	n, err := notifier.New(notifier.Options{URL: o.url, SecretFile: o.secretFile, CAFile: o.caFile, Clock: clock.RealClock{}, Registerer: metrics.Registry, Log: mgr.GetLogger()})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(n); err != nil {
		return nil, fmt.Errorf("adding the notifications: %w", err)
	}
	return n, nil
}
