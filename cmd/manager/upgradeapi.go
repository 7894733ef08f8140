package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/foreign"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
)

// addUpgradeAPI adds the REST API, unless it is off, and the Recreator, which completes
// accepted upgrades even if the API is off now.
func addUpgradeAPI(mgr ctrl.Manager, o options, certificate getCertificate, log logr.Logger) error {
	// Without a cache: callers read their own writes.
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	access := upgradeapi.NewTokenAccess(live, clock.RealClock{}, o.audiences...)
	impersonator, err := upgradeapi.NewImpersonator(live, mgr.GetConfig(), log)
	if err != nil {
		return err
	}
	recreator := &upgradeapi.Recreator{Client: live, Impersonator: impersonator, Namespace: o.namespace, Access: access, Log: log, Clock: clock.RealClock{}}
	if err := recreator.SetupWithManager(mgr); err != nil {
		return err
	}
	if !o.upgradeAPI.on() {
		return nil
	}
	if err := mgr.AddReadyzCheck("gcuresources", upgradeapi.Ready(live)); err != nil {
		return err
	}
	planner := planner{predictorOf(mgr, live, o)}
	secure := o.upgradeAPI.auth == authToken
	options := upgradeapi.Options{Client: live, Cache: mgr.GetCache(), Namespace: o.namespace, Blueprints: o.upgradeAPI.blueprintDir, Log: log, Clock: clock.RealClock{}, Requests: upgradeapi.NewRequestMetric(metrics.Registry),
		Planner: planner, Access: access, Impersonator: impersonator, Hosts: foreign.Hosts(netip.IPv6Unspecified(), o.apiHosts()...)}
	if !secure {
		options.Anonymous = o.upgradeAPI.anonymous
	}
	server := &upgradeapi.Server{API: upgradeapi.New(options), Address: o.upgradeAPI.addr, TLS: secure, CertDir: o.upgradeAPI.certDir, Certificate: certificate, Log: log}
	if err := mgr.AddReadyzCheck("upgrade-api", server.Ready); err != nil {
		return err
	}
	return mgr.Add(server)
}

// predictorOf returns the Predictor that predicts upgrades, reading from the cache and live.
func predictorOf(mgr ctrl.Manager, live client.Reader, o options) inquiry.Predictor {
	return inquiry.Predictor{Reader: mgr.GetCache(), Live: live, Namespace: o.namespace, Clock: time.Now}
}

// planner plans for the REST API.
type planner struct{ inquiry.Predictor }

// Plan implements upgradeapi.Planner.
func (p planner) Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (plan any, refused string, err error) {
	prediction, err := p.Ask(ctx, preview.Question{Present: present, Wanted: wanted, Approved: approved})
	if err != nil {
		return nil, "", err
	}
	return prediction, prediction.Refused(), nil
}

// Refused implements upgradeapi.Planner.
func (p planner) Refused(ctx context.Context, present, wanted *topsv1.GcuResource) (string, error) {
	prediction, err := p.UnderVersions(ctx, preview.Question{Present: present, Wanted: wanted, Approved: true})
	if err != nil || prediction == nil {
		return "", err
	}
	return prediction.Refused(), nil
}
