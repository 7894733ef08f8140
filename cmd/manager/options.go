package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/kubeconfig"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

const (
	defaultNamespace = "kube-system"
	// The log file is /var/log/topscloud/gcu-operator/gcu-operator.log on the host, where collectors
	// expect it (contract statement 55).
	defaultLogDir = "/var/log/topscloud/gcu-operator"
	logFile       = "gcu-operator.log"
	// The REST API has the port and the directories of gcu-upgrade-manager, so that its clients, blueprints
	// and log collectors find them (contract 61, 69 and 78).
	defaultAPIAddr      = ":32765"
	defaultBlueprintDir = "/topsdata/dcp/gcu-upgrade-manager/blueprints"
	defaultAPILogDir    = "/topsdata/dcp/gcu-upgrade-manager/op-log"
	apiLogFile          = "gcu-upgrade-manager.log"
	// defaultAnonymous is bound to a role in config/rest-api.
	defaultAnonymous = "gcu-operator:anonymous"
	// apiService is the Service of the REST API (config/manager).
	apiService = "gcu-upgrade-manager"
	// metricsService is the Service of the metrics.
	metricsService = "gcu-operator-metrics"
	// authToken and authNone are the values of --upgrade-api-auth.
	authToken = "token"
	authNone  = "none"
)

// options are the flags.
type options struct {
	kubeconfig  string
	namespace   string
	leaderElect bool
	gate        bool
	metrics     metricsOptions
	// audiences are those of callers' tokens, for the REST API and the metrics.
	audiences  []string
	probeAddr  string
	pprofAddr  string
	logDir     string
	logging    logging.Options
	upgradeAPI upgradeAPIOptions
	webhook    webhookOptions
	notify     notifyOptions
}

// upgradeAPIOptions are the flags of the REST API.
type upgradeAPIOptions struct {
	addr         string
	auth         string
	certDir      string
	anonymous    string
	hosts        []string
	blueprintDir string
	logDir       string
}

// on reports whether the REST API is served.
func (o upgradeAPIOptions) on() bool { return o.addr != "0" }

func (o *options) bindFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", kubeconfig.Usage)
	flags.StringVar(&o.namespace, "namespace", namespaceFromEnvironment(), "`namespace` of the lease and of the DaemonRollouts of GcuResources; default from POD_NAMESPACE, else "+defaultNamespace)
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "run only while holding the lease, so that several replicas can be started")
	flags.BoolVar(&o.gate, "gate", false, "let pods that replace ones deleted or evicted outside the rollout wait until their node may get their version; needs config/gate")
	o.metrics.bindFlags(flags)
	flags.StringSliceVar(&o.audiences, "api-audiences", nil, "`audiences` of the tokens that the REST API and the metrics take: a token must be for one of them; empty: for the API server")
	flags.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 serves none")
	flags.StringVar(&o.pprofAddr, "pprof-bind-address", "0", "`address` of Go's profiles, /debug/pprof/: they have no authentication, so it is a loopback one; 0 serves none")
	flags.StringVar(&o.logDir, "log-dir", defaultLogDir, "`directory` of the rotating log file "+logFile+", which survives the manager; empty: standard error only")
	o.logging.BindFlags(flags)
	o.upgradeAPI.bindFlags(flags)
	o.webhook.bindFlags(flags)
	o.notify.bindFlags(flags)
}

func (o *upgradeAPIOptions) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.addr, "upgrade-api-bind-address", defaultAPIAddr, "`address` of the REST API of gcu-upgrade-manager; 0 serves none")
	flags.StringVar(&o.auth, "upgrade-api-auth", authToken, "`mode`: token authenticates and authorizes requests with the API server, over TLS; none treats every request as one user, limited to blueprints, over plain HTTP")
	flags.StringVar(&o.anonymous, "upgrade-api-anonymous-user", defaultAnonymous, "`user` that all requests come from in mode none, with the rights that RBAC gives it: those of config/rest-api for the default")
	flags.StringVar(&o.certDir, "upgrade-api-tls-cert-dir", "", "`directory` with tls.crt and tls.key for mode token; empty: a certificate of the CA in ConfigMap gcu-operator-ca")
	flags.StringSliceVar(&o.hosts, "upgrade-api-hosts", nil, "`names` by which the REST API may be called, besides IP addresses, localhost and the names of the Service "+apiService+": a name of a node or an ingress; others are refused with 421")
	flags.StringVar(&o.blueprintDir, "blueprint-dir", defaultBlueprintDir, "`directory` of the blueprints that a PUT may name")
	flags.StringVar(&o.logDir, "upgrade-api-log-dir", defaultAPILogDir, "`directory` of the rotating log file "+apiLogFile+"; empty: standard error only")
}

// apiHosts returns the names by which the REST API may be called.
func (o options) apiHosts() []string {
	names := append(namesOf(apiService, o.namespace), o.upgradeAPI.hosts...)
	if node := os.Getenv("NODE_NAME"); node != "" {
		names = append(names, node)
	}
	return names
}

// namesOf returns the names of a Service.
func namesOf(service, namespace string) []string {
	of := service + "." + namespace
	return []string{service, of, of + ".svc", of + ".svc.cluster.local"}
}

// apiLoggingOptions returns how the REST API logs: into its own file, unless there is no
// directory.
func (o options) apiLoggingOptions() logging.Options {
	o.logging.File = ""
	if o.upgradeAPI.logDir != "" {
		o.logging.File = filepath.Join(o.upgradeAPI.logDir, apiLogFile)
	}
	return o.logging
}

// loggingOptions returns how to log: also into the file, unless there is no directory.
func (o options) loggingOptions() logging.Options {
	if o.logDir != "" {
		o.logging.File = filepath.Join(o.logDir, logFile)
	}
	return o.logging
}

func namespaceFromEnvironment() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	return defaultNamespace
}

// selfFromEnvironment returns the pod of this program, zero if unknown.
func selfFromEnvironment() eviction.Self {
	return eviction.Self{NamespacedName: types.NamespacedName{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME")}}
}

// validate returns a one-line error for the first invalid flag.
func (o options) validate() error {
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return fmt.Errorf("--namespace %q is not the name of a namespace: %s", o.namespace, problems[0])
	}
	if err := o.metrics.validate(); err != nil {
		return err
	}
	if slices.Contains(o.audiences, "") {
		return errors.New("--api-audiences must not name an empty audience")
	}
	if o.probeAddr == "" {
		return errors.New("--health-probe-bind-address must not be empty: 0 turns the probes off")
	}
	if _, err := guard.Address(o.pprofAddr, false); err != nil && o.pprofAddr != "0" {
		return fmt.Errorf("--pprof-bind-address %q is not a loopback address with a port, such as 127.0.0.1:6060: profiles have no authentication", o.pprofAddr)
	}
	if err := o.upgradeAPI.validate(); err != nil {
		return err
	}
	if err := errors.Join(o.webhook.validate(), o.notify.validate()); err != nil {
		return err
	}
	return o.logging.Validate()
}

func (o upgradeAPIOptions) validate() error {
	switch {
	case o.addr == "":
		return errors.New("--upgrade-api-bind-address must not be empty: 0 turns the REST API off")
	case o.auth != authToken && o.auth != authNone:
		return fmt.Errorf("--upgrade-api-auth %q is neither %s nor %s", o.auth, authToken, authNone)
	case o.auth == authNone && o.certDir != "":
		return errors.New("--upgrade-api-tls-cert-dir has no meaning with --upgrade-api-auth=none, which is plain HTTP: leave it out")
	case o.auth == authNone && (o.anonymous == "" || strings.HasPrefix(o.anonymous, "system:")):
		return fmt.Errorf("--upgrade-api-anonymous-user %q must be a user of its own: not empty, and none of Kubernetes (system:…)", o.anonymous)
	case o.on() && o.blueprintDir == "":
		return errors.New("--blueprint-dir must not be empty")
	}
	return nil
}
