package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestWebhookFlags(t *testing.T) {
	for address, wrong := range map[string]bool{"0": false, ":9443": false, "127.0.0.1:9443": false, "[::1]:9443": false, "": true, "9443": true, ":0": true, ":99999": true, ":web": true} {
		var o options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.bindFlags(flags)
		if o.webhook.on() || o.webhook.server(nil) != nil {
			t.Error("it is on by default")
		}
		check(t, flags.Parse([]string{"--webhook-bind-address", address, "--metrics-bind-address=0", "--upgrade-api-bind-address=0"}))
		err := o.validate()
		if wrong != (err != nil && strings.Contains(err.Error(), "--webhook-bind-address")) {
			t.Errorf("%q: %v", address, err)
		}
		if is := address != "0" && !wrong; !wrong && (o.webhook.server(nil) != nil) != is {
			t.Errorf("%q: served is %t", address, !is)
		}
		if !wrong && o.keepsCertificates() != o.webhook.on() {
			t.Errorf("%q: there is a certificate: %t", address, o.keepsCertificates())
		}
		if !slices.Contains(o.servingNames(), "gcu-operator-webhook.kube-system.svc") {
			t.Error("the API server would not accept the certificate")
		}
	}
}
