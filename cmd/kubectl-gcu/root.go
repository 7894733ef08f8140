package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const rootHelp = `Show the state of the GCU software of a cluster, explain it, say what to do, and
control its upgrades.

Reading requires get and list on the kinds of topsops.enflame.com and, for single
nodes, on nodes, pods, daemonsets and controllerrevisions. What you are not allowed
to read is left out, and the output says so.

Exit codes: 0 done, or already as requested
            1 an error, for example from the API server
            2 the command line or a file is wrong
            3 not (yet) as requested: it timed out or stopped
            4 refused: the state of the cluster does not allow it; nothing was changed
            5 forbidden; the message names the missing permission
            130 interrupted by Ctrl-C`

const rootExample = `  # What is the state of the grs, and what needs attention?
  kubectl gcu status

  # Upgrade, and wait until every reachable node is updated
  kubectl gcu upgrade -f gr.yaml --wait --timeout 2h

  # Which nodes failed, and why?
  kubectl gcu nodes --state failed`

// usageTemplate is that of cobra without the many flags of the connection.
const usageTemplate = `Usage:
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}{{if .HasParent}}

Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{end}}

Use "kubectl gcu options" for the flags of the connection, which are those of kubectl.
`

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	c := &cli{terminal{streams}, connection{genericclioptions.NewConfigFlags(true)}}
	*c.flags.Namespace = ""
	root := &cobra.Command{
		Use:           "kubectl-gcu",
		Short:         "Show and control the GCU software of a cluster",
		Long:          rootHelp,
		Example:       rootExample,
		Version:       version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gcu"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetIn(streams.In)
	root.SetUsageTemplate(usageTemplate)
	root.CompletionOptions.DisableDefaultCmd = true // kubectl calls __complete: see kubectl_complete-gcu
	c.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().Lookup("namespace").Usage = "`namespace` of the operator (default " + operatorNamespace + ")"
	root.AddCommand(statusCommand(c), nodesCommand(c), historyCommand(c), reportCommand(c), dashboardCommand(c),
		planCommand(c), upgradeCommand(c), pauseCommand(c), resumeCommand(c), rollbackCommand(c), approveCommand(c),
		holdCommand(c), releaseCommand(c), taskCommand(c), abortCommand(c), importCommand(c), imagesCommand(c), bundleCommand(c), versionCommand(c), versionsCommand(c), optionsCommand())
	return root
}

func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "List the flags of the connection, which every command has",
		Long:    "List the flags of the connection, which every command has. They are those of kubectl.",
		Example: "  kubectl gcu options",
		Args:    cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			command.Println("Every command has these flags:")
			command.Println()
			command.Println(command.InheritedFlags().FlagUsages())
		},
	}
}
