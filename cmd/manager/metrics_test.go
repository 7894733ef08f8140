package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestMetricsAndProfileFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want metricsOptions
		err  string
	}{
		{"metrics are secure unless told otherwise", nil, metricsOptions{":8443", true, ""}, ""},
		{"plain HTTP", []string{"--metrics-secure=false", "--metrics-bind-address=:8080"}, metricsOptions{":8080", false, ""}, ""},
		{"a certificate nobody would see", []string{"--metrics-secure=false", "--metrics-cert-dir=/c"}, metricsOptions{}, "is plain HTTP: leave it out"},
		{"no address", []string{"--metrics-bind-address="}, metricsOptions{}, "0 turns the metrics off"},
		{"an audience that is empty", []string{"--api-audiences=a,"}, metricsOptions{}, "must not name an empty audience"},
		{"no probes", []string{"--health-probe-bind-address="}, metricsOptions{}, "0 turns the probes off"},
		{"profiles on loopback", []string{"--pprof-bind-address=127.0.0.1:6060"}, metricsOptions{":8443", true, ""}, ""},
		{"profiles on IPv6's loopback", []string{"--pprof-bind-address=[::1]:6060"}, metricsOptions{":8443", true, ""}, ""},
		{"profiles for everybody", []string{"--pprof-bind-address=:6060"}, metricsOptions{}, "is not a loopback address"},
		{"profiles on all addresses", []string{"--pprof-bind-address=0.0.0.0:6060"}, metricsOptions{}, "is not a loopback address"},
		{"profiles without a port", []string{"--pprof-bind-address=127.0.0.1"}, metricsOptions{}, "is not a loopback address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.bindFlags(flags)
			check(t, flags.Parse(tt.args))
			err := o.validate()
			switch {
			case tt.err == "" && (err != nil || o.metrics != tt.want):
				t.Errorf("got %+v, %v", o.metrics, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("validate: %v, want %q", err, tt.err)
			}
		})
	}
}

// Otherwise a mistake in the path is a self-signed certificate.
func TestACertificateOfTheMetricsThatIsNotThereIsAnError(t *testing.T) {
	if _, err := (metricsOptions{":8443", true, t.TempDir()}).server(runtime.NewScheme(), nil, nil); err == nil {
		t.Error("there is none")
	}
}
