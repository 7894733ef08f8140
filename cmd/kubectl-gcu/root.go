package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

const rootHelp = `Shows the state of the GCU software of a cluster, explains it, says what to do, and
controls its upgrades.

Reading requires get and list on the kinds of topsops.enflame.com and, for single
nodes, on nodes, pods, daemonsets and controllerrevisions. What you are not allowed
to read is left out, and the output says so.

Exit codes: 0 done, or already as requested
            1 an error, for example from the API server
            2 the command line or a file is wrong
            3 not (yet) as requested: it timed out or stopped
            4 refused: the state of the cluster does not allow it; nothing was changed
            5 forbidden; the message names the missing right
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

// cli is what all commands share.
type cli struct {
	genericiooptions.IOStreams
	connection *genericclioptions.ConfigFlags
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	c := &cli{IOStreams: streams, connection: genericclioptions.NewConfigFlags(true)}
	*c.connection.Namespace = ""
	root := &cobra.Command{
		Use:           "kubectl-gcu",
		Short:         "Shows and steers the GCU software of a cluster",
		Long:          rootHelp,
		Example:       rootExample,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gcu"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetIn(streams.In)
	root.SetUsageTemplate(usageTemplate)
	root.CompletionOptions.DisableDefaultCmd = true // kubectl asks for __complete: see kubectl_complete-gcu
	c.connection.AddFlags(root.PersistentFlags())
	root.PersistentFlags().Lookup("namespace").Usage = "`namespace` of the operator (default " + operatorNamespace + ")"
	root.AddCommand(c.statusCommand(), c.nodesCommand(), c.historyCommand(),
		c.planCommand(), c.upgradeCommand(), c.pauseCommand(), c.resumeCommand(), c.rollbackCommand(), c.approveCommand(),
		c.holdCommand(), c.releaseCommand(), c.taskCommand(), c.abortCommand(), c.importCommand(), c.bundleCommand(), c.versionCommand(), optionsCommand())
	return root
}

func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "Lists the flags of the connection, which every command has",
		Long:    "Lists the flags of the connection, which every command has. They are those of kubectl.",
		Example: "  kubectl gcu options",
		Args:    cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			command.Println("Every command has these flags:")
			command.Println()
			command.Println(command.InheritedFlags().FlagUsages())
		},
	}
}

// does makes a RunE of what a command does: its errors are no longer those of the
// command line.
func does(act func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		err := act(command.Context(), args)
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[*failure](err); ok {
			return f
		}
		return &failure{exitFailed, err}
	}
}

// style is how text is written to the output now.
func (c *cli) style() view.Style {
	return view.Style{Now: time.Now(), Colour: c.onTerminal() && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (c *cli) onTerminal() bool {
	f, ok := c.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width of the terminal in columns, 80 when it is not known.
func (c *cli) width() int {
	if f, ok := c.Out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}
