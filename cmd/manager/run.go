package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	commonversion "github.com/prometheus/common/version"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/apiclock"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	rolloutmetrics "github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/policystatus"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/gcuresource"
	"github.com/topsops/gcu-operator/pkg/kubeconfig"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/agents"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/pkg/transform"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// syncProbe is how long a readiness probe waits for the caches.
const syncProbe = 100 * time.Millisecond

// runError is an error of a running manager, not of its flags. It has been logged.
type runError struct{ cause error }

func (e *runError) Error() string { return e.cause.Error() }
func (e *runError) Unwrap() error { return e.cause }

// run runs the manager until ctx is done or the lease is lost. It also logs the error that it
// returns, so that the log file on the host has it.
func run(ctx context.Context, o options, stderr io.Writer) error {
	log := logging.New(stderr, o.loggingOptions())
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client"))
	if err := runManager(ctx, o, log, stderr); err != nil {
		log.Error(err, "Stopped by an error")
		return err
	}
	log.Info("Stopped")
	return nil
}

func runManager(ctx context.Context, o options, log logr.Logger, stderr io.Writer) error {
	config, err := kubeconfig.Load(o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // every controller limits its own parallelism
	config.UserAgent = "gcu-operator/" + version
	there := &apiclock.Clock{Now: time.Now}
	config.Wrap(there.Around)
	certificates, err := newCertificates(config, o, log)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, certificates.GetCertificate)
	if err != nil {
		return err
	}
	if err := requireCRDs(ctx, mgr); err != nil {
		return err
	}
	if o.keepsCertificates() {
		certificates.Refresh(ctx) // before anything is served with them
		certificates.Register(metrics.Registry)
		if err := mgr.Add(certificates); err != nil {
			return fmt.Errorf("adding the certificates: %w", err)
		}
	}
	if err := addControllers(mgr, o, there.Ahead); err != nil {
		return err
	}
	apiLog := log
	if o.upgradeAPI.on() {
		apiLog = logging.New(stderr, o.apiLoggingOptions())
	}
	if err := addUpgradeAPI(mgr, o, certificates.GetCertificate, apiLog); err != nil {
		return fmt.Errorf("adding the REST API: %w", err)
	}
	if err := o.webhook.add(ctx, mgr, predictorOf(mgr, mgr.GetAPIReader(), o)); err != nil {
		return fmt.Errorf("adding the webhook: %w", err)
	}
	warnIfUnbounded(ctx, mgr.GetClient(), o.namespace, log)
	log.Info("Starting the manager", "version", version, "namespace", o.namespace, "leaderElection", o.leaderElect)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func newManager(config *rest.Config, o options, certificate getCertificate) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	served, err := o.metrics.server(scheme, o.audiences, certificate)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		WebhookServer:                 o.webhook.server(certificate),
		Scheme:                        scheme,
		NewClient:                     newClient,
		Cache:                         cache.Options{DefaultTransform: transform.Trim()},
		Metrics:                       served,
		HealthProbeBindAddress:        o.probeAddr,
		PprofBindAddress:              o.pprofAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              inquiry.LeaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	synced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), syncProbe)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not synchronized with the API server yet")
		}
		return nil
	}
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", synced))
	if err != nil {
		return nil, fmt.Errorf("adding probes: %w", err)
	}
	return withPlainEvents{mgr}, nil
}

// addControllers adds the controllers; ahead is daemonset.StateTimes.Ahead.
func addControllers(mgr ctrl.Manager, o options, ahead func(time.Time) time.Duration) error {
	if err := (&gcuresource.Reconciler{Namespace: o.namespace, StateTimes: &daemonset.StateTimes{Ahead: ahead}}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controller gcuresource: %w", err)
	}
	gcuresource.RegisterMetrics(metrics.Registry, mgr.GetCache(), mgr.Elected())
	if err := (&gcuresource.NodeLabeler{Namespace: o.namespace}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controller nodelabeler: %w", err)
	}
	agents.Register(metrics.Registry, mgr.GetCache(), mgr.Elected(), time.Now)
	commonversion.Version = version
	metrics.Registry.MustRegister(versioncollector.NewCollector("gcu_operator"))
	if err := addNodeUpgrade(mgr, o.namespace, ahead); err != nil {
		return fmt.Errorf("adding controller nodeupgrade: %w", err)
	}
	if err := (&policystatus.Reporter{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controller policystatus: %w", err)
	}
	shown := rolloutmetrics.New(metrics.Registry)
	var gateMode func() gating.Mode
	var gateChanged <-chan struct{}
	if o.gate {
		g, err := addGate(mgr, o.namespace, shown.Gate)
		if err != nil {
			return err
		}
		gateMode, gateChanged = g.Mode, g.changed
	}
	notices, err := addNotifier(mgr, o.notify)
	if err != nil {
		return err
	}
	return (&daemonupdater.Reconciler{
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(topsv1.ManagedBy),
		Metrics:     shown,
		Gate:        gateMode,
		GateChanged: gateChanged,
		Notices:     notices,
		Namespace:   o.namespace,
		Node:        os.Getenv("NODE_NAME"),
		Book:        upgradeplan.DefaultBook(),
		Deadlines:   rollout.DefaultDeadlines,
		Clock:       time.Now,
		Ahead:       ahead,
	}).SetupWithManager(mgr)
}

func addNodeUpgrade(mgr ctrl.Manager, namespace string, ahead func(time.Time) time.Duration) error {
	machine, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		return err
	}
	evictor, err := drain.NewEvictor(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	return nodeupgrade.New(nodeupgrade.Options{
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Namespace: namespace,
		Machine:   machine,
		Drainer:   drain.Drainer{Live: mgr.GetAPIReader(), Evictor: evictor, Metrics: drain.NewMetrics(metrics.Registry), Self: selfFromEnvironment()},
		Recorder:  mgr.GetEventRecorder(topsv1.ManagedBy),
		Metrics:   nodeupgrade.NewMetrics(metrics.Registry),
		Clock:     time.Now,
		Ahead:     ahead,
	}).SetupWithManager(mgr)
}
