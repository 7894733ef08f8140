package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/topsops/gcu-operator/pkg/admission"
)

// config/webhook has the names and the path that the manager serves, and leaves time for an answer.
func TestWhatIsServedIsWrittenIntoTheWebhookConfiguration(t *testing.T) {
	read := func(file string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "webhook", file))
		check(t, err)
		check(t, yaml.UnmarshalStrict(text, into))
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	var service corev1.Service
	read("configuration.yaml", &configuration)
	read("service.yaml", &service)
	webhook := configuration.Webhooks[0]
	want := admissionv1.ServiceReference{Namespace: "kube-system", Name: webhookService, Path: ptr.To(admission.Path), Port: &service.Spec.Ports[0].Port}
	if configuration.Name != webhookConfiguration || service.Name != webhookService || !reflect.DeepEqual(*webhook.ClientConfig.Service, want) {
		t.Errorf("the API server calls %+v", webhook.ClientConfig.Service)
	}
	if timeout := time.Duration(*webhook.TimeoutSeconds) * time.Second; timeout < admission.ResponseTimeout+time.Second || *webhook.FailurePolicy != admissionv1.Ignore {
		t.Errorf("within %s there is no answer, which is to %s", timeout, *webhook.FailurePolicy)
	}
}

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
