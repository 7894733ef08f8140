//go:build !linux

package main

import "github.com/spf13/cobra"

const longHelp = `The node agent runs on Linux. From other systems, its endpoint is called with the token
of the node, where it is served to other machines (docs/edge-node.md).`

const example = `  node-agent ota status --address https://node-1:10267 --token-file ota-token --ca-file ca.crt`

// newCommand returns the client alone.
func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "node-agent", Short: "Call the node agent of a node", Long: longHelp, Example: example, Version: version,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newOTACommand())
	return command
}
