package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/topsops/gcu-operator/pkg/upgradeapi"
)

// getCertificate is tls.Config.GetCertificate.
type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// servedWith returns the TLS options of controller-runtime's servers; with a nil certificate they use the one in their directory.
func servedWith(certificate getCertificate) []func(*tls.Config) {
	return []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.NextProtos, c.GetCertificate = tls.VersionTLS12, []string{"http/1.1"}, certificate
	}}
}

// metricsOptions are the flags of the metrics.
type metricsOptions struct {
	addr    string
	secure  bool
	certDir string
}

func (o *metricsOptions) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.addr, "metrics-bind-address", ":8443", "`address` of the Prometheus metrics; 0 serves none")
	flags.BoolVar(&o.secure, "metrics-secure", true, "serve the metrics over TLS, to callers with a token and the right to get nonResourceURLs /metrics; false: to anyone, over plain HTTP")
	flags.StringVar(&o.certDir, "metrics-cert-dir", "", "`directory` with tls.crt and tls.key for the metrics; empty: a certificate of the CA in ConfigMap gcu-operator-ca")
}

func (o metricsOptions) validate() error {
	switch {
	case o.addr == "":
		return errors.New("--metrics-bind-address must not be empty: 0 turns the metrics off")
	case !o.secure && o.certDir != "":
		return errors.New("--metrics-cert-dir has no meaning with --metrics-secure=false, which is plain HTTP: leave it out")
	}
	return nil
}

// server returns the options of controller-runtime's server. Its own filter brings k8s.io/apiserver
// with 20 modules; ours is that of the REST API.
func (o metricsOptions) server(scheme *runtime.Scheme, audiences []string, certificate getCertificate) (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: o.addr, SecureServing: o.secure, CertDir: o.certDir}
	if !o.secure || o.addr == "0" {
		return options, nil
	}
	if o.certDir != "" { // without the files the server would make a certificate of its own
		if _, err := tls.LoadX509KeyPair(filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key")); err != nil {
			return options, fmt.Errorf("reading the certificate of the metrics: %w", err)
		}
		certificate = nil
	}
	options.TLSOpts = servedWith(certificate)
	options.FilterProvider = func(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
		asks, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme})
		if err != nil {
			return nil, fmt.Errorf("making a client for the metrics: %w", err)
		}
		access := upgradeapi.NewTokenAccess(asks, clock.RealClock{}, audiences...)
		return func(_ logr.Logger, metrics http.Handler) (http.Handler, error) { return access.Guard(metrics), nil }, nil
	}
	return options, nil
}
