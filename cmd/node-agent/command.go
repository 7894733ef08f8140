package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/ota"
)

const (
	defaultBindAddress = "127.0.0.1:10267"
	defaultStateDir    = "/var/lib/gcu-node-agent"
)

const longHelp = `node-agent runs on every GCU node and serves the node's own OTA endpoint.

The person at the node sees with GET /pods which pods have a newer revision
(condition PodNeedUpgrade) and asks for one with a POST. The request survives
restarts of the agent and of the node; the operator carries it out under the
limits of the rollout. The endpoint is reachable from this node only.

Exit codes: 0 after SIGTERM or Ctrl-C, 1 when the agent cannot run or go on,
2 when a flag is wrong.`

const example = `  # In a pod of the DaemonSet, NODE_NAME from the downward API:
  node-agent

  # From a shell, for a node of a test cluster:
  node-agent --kubeconfig admin.kubeconfig --node-name node-0001 --state-dir /tmp/node-0001

  # On the node: what can be upgraded, and upgrade it
  curl -s http://127.0.0.1:10267/pods
  curl -X POST http://127.0.0.1:10267/openyurt.io/v1/namespaces/kube-system/pods/gcu-driver-x7x2p/upgrade`

// options are the flags as given.
type options struct {
	kubeconfig  string
	nodeName    string
	bindAddress string
	stateDir    string
	log         logging.Options
}

// settings are options that were found to be good.
type settings struct {
	options
	address netip.AddrPort
}

func newCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:           "node-agent",
		Short:         "Serves the OTA endpoint of one node",
		Long:          longHelp,
		Example:       example,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			settings, err := o.validate()
			if err != nil {
				return err
			}
			if err := serve(command.Context(), settings, command.ErrOrStderr()); err != nil {
				return &runError{err}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that leads to the API server; empty: the service account of the pod")
	flags.StringVar(&o.nodeName, "node-name", os.Getenv("NODE_NAME"), "`name` of this node; default from the environment variable NODE_NAME")
	flags.StringVar(&o.bindAddress, "ota-bind-address", defaultBindAddress, "loopback `ip:port` of the OTA endpoint")
	flags.StringVar(&o.stateDir, "state-dir", defaultStateDir, "`directory` for the journal of requests; must survive restarts of the node")
	o.log.BindFlags(flags)
	return command
}

// validate returns an error of one line for the first flag that is wrong.
func (o options) validate() (settings, error) {
	if o.nodeName == "" {
		return settings{}, errors.New("--node-name is required, or NODE_NAME in the environment")
	}
	if problems := validation.IsDNS1123Subdomain(o.nodeName); len(problems) > 0 {
		return settings{}, fmt.Errorf("--node-name %q is not the name of a node: %s", o.nodeName, strings.Join(problems, "; "))
	}
	address, err := ota.LoopbackAddress(o.bindAddress)
	if err != nil {
		return settings{}, fmt.Errorf("--ota-bind-address %w", err)
	}
	if o.stateDir == "" {
		return settings{}, errors.New("--state-dir is empty: name a directory that survives restarts of the node")
	}
	if err := o.log.Validate(); err != nil {
		return settings{}, err
	}
	return settings{options: o, address: address}, nil
}
