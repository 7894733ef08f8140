package main

import "github.com/spf13/cobra"

const longHelp = `manager deploys the Enflame GCU node software that GcuResources ask for, and
upgrades it node by node without ever making more nodes unavailable than
allowed. It also rolls any other DaemonSet whose updateStrategy is OnDelete and
that carries the annotation topsops.enflame.com/update-strategy, and serves the
REST API of gcu-upgrade-manager.

Exit codes: 0 after SIGTERM or Ctrl-C, 1 when it cannot run or lost its lease,
2 when a flag is wrong.`

const example = `  # In a pod, with its ServiceAccount:
  manager --leader-elect

  # From a shell, against the cluster of a kubeconfig:
  KUBECONFIG=~/.kube/config manager --metrics-bind-address 127.0.0.1:8080 --metrics-secure=false --log-dir= --upgrade-api-bind-address 0`

func newCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:           "manager",
		Short:         "Deploy and upgrade the GCU node software of a cluster",
		Long:          longHelp,
		Example:       example,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := run(command.Context(), o, command.ErrOrStderr()); err != nil {
				return &runError{err}
			}
			return nil
		},
	}
	o.bindFlags(command.Flags())
	command.AddCommand(newPrepareLogsCommand(), newCreateCommand(), newRemoveCommand())
	return command
}
