//go:build linux

package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/topsops/gcu-operator/pkg/kubeconfig"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// Values of --ota-auth.
const (
	authToken = "token"
	authNone  = "none"
)

const (
	defaultBindAddress    = "127.0.0.1:10267"
	defaultStateDir       = "/var/lib/gcu-node-agent"
	tokenFileName         = "ota-token" // in the state directory
	defaultSpread         = 30 * time.Second
	defaultHostRoot       = "/host"
	defaultDockerEndpoint = "unix:///run/docker.sock"
	// Restarts of the runtime are logged to /var/log/topscloud/gcu-operator/restart-docker.log on the
	// host, where collectors expect them (contract statement 55).
	defaultLogDir = "/var/log/topscloud/gcu-operator"
	restartLog    = "restart-docker.log"
)

// options are the flags as given.
type options struct {
	kubeconfig string
	nodeName   string
	podUID     string
	stateDir   string
	log        logging.Options
	spread     time.Duration

	bindAddress string
	auth        string
	tokenFile   string
	socket      string
	socketGroup int
	tlsCertFile string
	tlsKeyFile  string

	hostRoot           string
	runtime            string
	containerdEndpoint string
	containerdConfig   string
	containerdUnit     string
	dockerEndpoint     string
	restartRuntime     bool
	restartContainerd  []string
	restartDocker      []string
	logDir             string
}

func (o *options) bindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", kubeconfig.Usage)
	flags.StringVar(&o.nodeName, "node-name", os.Getenv("NODE_NAME"), "`name` of this node; default from the environment variable NODE_NAME")
	flags.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"), "`UID` of the agent's pod, whose container must run again after a restart of the runtime; default from POD_UID; empty: it runs in no pod")
	flags.DurationVar(&o.spread, "first-contact-spread", defaultSpread, "`time` over which the agents of many nodes that start at once spread their first contact with the API server; a request at the node does not wait for it")
	flags.StringVar(&o.bindAddress, "ota-bind-address", defaultBindAddress, "`ip:port` of the OTA endpoint; anything but loopback needs --ota-auth=token and TLS")
	flags.StringVar(&o.auth, "ota-auth", authToken, "`mode` of authentication over TCP: token (the token of the node), or none (everyone on the node has access)")
	flags.StringVar(&o.tokenFile, "ota-token-file", "", "`file` of the token, for root only; created with a new token if it is missing; default "+tokenFileName+" in the state directory")
	flags.StringVar(&o.socket, "ota-socket", defaultSocket, "`path` of the unix socket of the OTA endpoint, for root; empty: none. The probes of config/node-agent call the default one")
	flags.IntVar(&o.socketGroup, "ota-socket-group", guard.NoGroup, "`number` of a group on the host whose members may use the socket too; -1: none. The pod of the agent needs it in supplementalGroups")
	flags.StringVar(&o.tlsCertFile, "ota-tls-cert-file", "", "`file` of the certificate with which TCP is served over TLS; read again for each connection")
	flags.StringVar(&o.tlsKeyFile, "ota-tls-key-file", "", "`file` of its key")
	flags.StringVar(&o.stateDir, "state-dir", defaultStateDir, "`directory` for the journals of requests and of host tasks; must survive restarts of the node")
	flags.StringVar(&o.hostRoot, "host-root", defaultHostRoot, "`directory` where the root of the host is mounted; / outside a container")
	flags.StringVar(&o.runtime, "container-runtime", "auto", "`engine` that runs the pods: auto, docker or containerd")
	flags.StringVar(&o.containerdEndpoint, "container-runtime-endpoint", "", "`socket` of containerd on the host, as configured for the kubelet; default that of the k3s, RKE2 or MicroK8s of the host, else unix:///run/containerd/containerd.sock")
	flags.StringVar(&o.containerdConfig, "containerd-config", "", "`file` on the host that containerd reads; default that of the containerd with that socket")
	flags.StringVar(&o.containerdUnit, "containerd-unit", "", "systemd `unit` that runs containerd, such as k0sworker.service; default that of the containerd with that socket")
	flags.StringVar(&o.dockerEndpoint, "docker-endpoint", defaultDockerEndpoint, "`socket` of docker on the host")
	flags.BoolVar(&o.restartRuntime, "restart-runtime", true, "restart docker or containerd when an operation asks for it; false: leave it to the administrator, and say in the NodeUpgrade what to run")
	flags.BoolVar(&o.restartRuntime, "restart-docker", true, "alias of --restart-runtime, its name in the gcu-operator guide; if both are given, the last one counts")
	flags.StringArrayVar(&o.restartContainerd, "restart-command-containerd", nil, "one `argument` of the command that restarts containerd on a host without systemd, first the program; give it once per argument, no shell reads them")
	flags.StringArrayVar(&o.restartDocker, "restart-command-docker", nil, "one `argument` of the command that restarts docker on a host without systemd, likewise")
	flags.StringVar(&o.logDir, "log-dir", defaultLogDir, "`directory` of "+restartLog+", the log of runtime restarts; empty: none")
	o.log.BindFlags(flags)
}
