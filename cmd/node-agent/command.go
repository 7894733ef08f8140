//go:build linux

package main

import "github.com/spf13/cobra"

const longHelp = `node-agent runs on every GCU node. It carries out what an upgrade needs on the
host, reports the host, and serves the node's own OTA endpoint.

On the host it pulls images ahead, restarts docker or containerd when its default
runtime has to change (at most once per operation), and reads driver, cards, disk
and runtime into status.host of the node's NodeUpgrade. What it cannot read, for
lack of a mount or a socket, it says there, and goes on with the rest.

The node's user sees with GET /pods which pods have a newer revision
(condition PodNeedUpgrade) and asks for one with a POST. The request survives
restarts of the agent and of the node; the operator carries it out under the
limits of the rollout. Root may call it over the socket, and anyone with the
node's token over TCP, on loopback.

Exit codes: 0 after SIGTERM or Ctrl-C, 1 when the agent cannot run or go on,
2 when a flag is wrong.`

const example = `  # In a pod of the DaemonSet, NODE_NAME and POD_UID from the downward API:
  node-agent

  # From a shell, for a node of a test cluster:
  node-agent --kubeconfig admin.kubeconfig --node-name node-0001 --state-dir /tmp/node-0001 --log-dir=

  # On a host without systemd, a command of the host restarts the runtime; the container
  # needs the capabilities SYS_ADMIN, SYS_CHROOT and SYS_PTRACE for it:
  node-agent --restart-command-containerd=/usr/bin/node-agent --restart-command-containerd=host-exec \
    --restart-command-containerd=/etc/init.d/containerd --restart-command-containerd=restart

  # On the node, as root: what can be upgraded, and upgrade it, see node-agent ota --help
  node-agent ota status
  node-agent ota upgrade

  # The same with curl, as OpenYurt has it
  curl -s --unix-socket /run/gcu-node-agent/ota.sock http://localhost/pods
  curl -X POST --unix-socket /run/gcu-node-agent/ota.sock \
    http://localhost/openyurt.io/v1/namespaces/kube-system/pods/gcu-driver-x7x2p/upgrade`

func newCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:           "node-agent",
		Short:         "Do what an upgrade needs on one node, and serve its OTA endpoint",
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
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
	command.Flags().SortFlags = false
	o.bindFlags(command.Flags())
	command.AddCommand(newOTACommand(), newHostExecCommand())
	return command
}
