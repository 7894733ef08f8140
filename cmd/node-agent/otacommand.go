package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

const otaHelp = `Talk to the node agent of this node: see what can be upgraded here, upgrade it, and
follow the progress. Run it on the node as root, or in the pod of the agent:

  kubectl exec -n kube-system POD -- node-agent ota status

Exit codes: 0 when it is done; 1 when the agent refuses or does not answer; 2 when
a flag is wrong; 3 when the operation failed, was dropped or withdrawn; 4 when it has
not ended within --timeout.`

const rollbackHelp = `Take back what was requested on this node. A request that has not started is withdrawn: one that
waits for a slot, or that the operator has not received yet. Otherwise, or with COMPONENT, this node is
rolled back to the previous revision, of COMPONENT or of what the last operation upgraded, and kept there
until there is another revision or it is upgraded again; other nodes are not touched.
The operator must run with the gate (docs/upgrade.md), and must have an earlier revision to go back to.

The command waits for the end. Exit code 3 means that it ended otherwise: a withdrawal came too
late, or the node was not rolled back. An operation that has started continues: then the command is
refused, and can be repeated when that has ended.`

const otaExample = `  # All that is outdated, with a progress bar on a terminal
  node-agent ota upgrade

  # One component, from a script; repeating it returns the same operation
  node-agent ota upgrade driver --idempotency-key job-7 --timeout 2h -o json

  # Withdraw what has not started, or restore the previous revision
  node-agent ota rollback

  # Start nothing on this node during a surgery
  node-agent ota hold -m "surgery until 18:00" && … && node-agent ota release`

// otaOptions are the flags of node-agent ota.
type otaOptions struct {
	connection
	output  string
	timeout time.Duration
}

// talk connects and runs f, with the timeout of --timeout.
func (o *otaOptions) talk(command *cobra.Command, f func(ctx context.Context, c *client, p *printer) error) error {
	if o.output != outputText && o.output != outputJSON {
		return fmt.Errorf("--output %q is none of %s, %s", o.output, outputText, outputJSON)
	}
	c, err := o.connect()
	if err != nil {
		return &exitError{exitFailed, err}
	}
	ctx := command.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	err = f(ctx, c, newPrinter(command.OutOrStdout(), command.ErrOrStderr(), o.output))
	if _, coded := errors.AsType[*exitError](err); err == nil || coded {
		return err
	}
	return &exitError{exitFailed, err}
}

func newOTACommand() *cobra.Command {
	o := &otaOptions{}
	command := &cobra.Command{
		Use: "ota", Short: "Ask the node agent of this node for an upgrade, and follow it", Long: otaHelp, Example: otaExample,
		Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	flags.StringVar(&o.socket, "socket", defaultSocket, "`path` of the agent's socket")
	flags.StringVar(&o.address, "address", "", "`URL` of the agent instead of its socket, such as http://127.0.0.1:10267")
	flags.StringVar(&o.tokenFile, "token-file", "", "`file` of the token, with --address")
	flags.StringVar(&o.caFile, "ca-file", "", "`file` of the authority that signed the agent's certificate, with --address https://…")
	flags.StringVarP(&o.output, "output", "o", outputText, "`format`: text or json")
	flags.DurationVar(&o.timeout, "timeout", 0, "`time` to wait at most; 0: no limit")
	command.AddCommand(o.statusCommand(), o.upgradeCommand(), o.watchCommand(), o.holdCommand(), o.releaseCommand(), o.rollbackCommand(), o.pingCommand())
	return command
}

func (o *otaOptions) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the components on this node, and available updates", Args: cobra.NoArgs,
		Example: "  node-agent ota status\n  node-agent ota status -o json",
		RunE: func(command *cobra.Command, _ []string) error {
			return o.talk(command, func(ctx context.Context, c *client, p *printer) error {
				var status response.Status
				if err := c.do(ctx, http.MethodGet, "/v1/status", "", nil, &status); err != nil {
					return err
				}
				return p.status(status)
			})
		},
	}
}

func (o *otaOptions) upgradeCommand() *cobra.Command {
	var latest, noWait bool
	var key string
	command := &cobra.Command{
		Use: "upgrade [COMPONENT]", Short: "Upgrade a component, or everything that is outdated, and follow it", Args: cobra.MaximumNArgs(1),
		Example:           "  node-agent ota upgrade\n  node-agent ota upgrade driver --timeout 2h\n  node-agent ota upgrade --latest --no-wait",
		ValidArgsFunction: o.completeComponents,
		RunE: func(command *cobra.Command, args []string) error {
			return o.talk(command, func(ctx context.Context, c *client, p *printer) error {
				body := map[string]string{}
				if latest {
					body["revision"] = "latest"
				}
				var operation response.Operation
				if err := c.do(ctx, http.MethodPost, pathFor("upgrade", args), key, body, &operation); err != nil {
					return err
				}
				if noWait {
					return p.operation(operation)
				}
				return watch(ctx, c, p, operation, request.Done)
			})
		},
	}
	command.Flags().BoolVar(&latest, "latest", false, "upgrade to the newest revision when the operator receives the request; matters while the API server is unreachable")
	command.Flags().BoolVar(&noWait, "no-wait", false, "return when the request is recorded")
	command.Flags().StringVar(&key, "idempotency-key", "", "`key` that makes a repeated request return the same operation")
	return command
}

// pathFor returns the path of a verb for the component that is named, or for all.
func pathFor(verb string, args []string) string {
	if len(args) == 0 {
		return "/v1/" + verb
	}
	return "/v1/components/" + url.PathEscape(args[0]) + "/" + verb
}

func (o *otaOptions) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch [OPERATION]", Short: "Follow an operation, by default the newest one", Args: cobra.MaximumNArgs(1),
		Example:           "  node-agent ota watch\n  node-agent ota watch op-3f0c9f6b1f2a4d5e -o json",
		ValidArgsFunction: o.completeOperations,
		RunE: func(command *cobra.Command, args []string) error {
			return o.talk(command, func(ctx context.Context, c *client, p *printer) error {
				var operation response.Operation
				if len(args) == 1 {
					if err := c.do(ctx, http.MethodGet, "/v1/operations/"+url.PathEscape(args[0]), "", nil, &operation); err != nil {
						return err
					}
					return watch(ctx, c, p, operation, request.Done)
				}
				var all response.Operations
				if err := c.do(ctx, http.MethodGet, "/v1/operations", "", nil, &all); err != nil {
					return err
				}
				if len(all.Operations) == 0 {
					return errors.New("there is no operation on this node: node-agent ota upgrade begins one")
				}
				return watch(ctx, c, p, all.Operations[0], request.Done)
			})
		},
	}
}

// watch follows an operation to its end. It returns an error with an exit code unless the
// final state is the wanted one.
func watch(ctx context.Context, c *client, p *printer, o response.Operation, wanted request.State) error {
	last, err := c.follow(ctx, o, p.news, p.lost)
	p.end()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitTimedOut, fmt.Errorf("operation %s has not ended: node-agent ota watch follows it", last.ID)}
	case err != nil:
		return err
	case last.State != wanted:
		return &exitError{exitNotDone, fmt.Errorf("operation %s: %s: %s", last.ID, last.State, last.Message)}
	}
	return nil
}

func (o *otaOptions) holdCommand() *cobra.Command {
	var message string
	command := &cobra.Command{
		Use: "hold", Short: "Exclude this node from upgrades; what is in flight continues", Args: cobra.NoArgs,
		Example: `  node-agent ota hold -m "surgery until 18:00"`,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.setHold(command, "/v1/hold", map[string]string{"message": message})
		},
	}
	command.Flags().StringVarP(&message, "message", "m", "", "`text` shown to users who wait for this node")
	return command
}

func (o *otaOptions) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "release", Short: "Release the hold of this node", Args: cobra.NoArgs,
		Example: "  node-agent ota release",
		RunE:    func(command *cobra.Command, _ []string) error { return o.setHold(command, "/v1/release", nil) },
	}
}

func (o *otaOptions) setHold(command *cobra.Command, path string, body any) error {
	return o.talk(command, func(ctx context.Context, c *client, p *printer) error {
		var state response.Hold
		if err := c.do(ctx, http.MethodPost, path, "", body, &state); err != nil {
			return err
		}
		return p.hold(state)
	})
}

func (o *otaOptions) rollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rollback [COMPONENT]", Short: "Withdraw a request that has not started, or restore the previous revision", Args: cobra.MaximumNArgs(1),
		Long: rollbackHelp, Example: "  node-agent ota rollback\n  node-agent ota rollback driver --timeout 2h", ValidArgsFunction: o.completeComponents,
		RunE: func(command *cobra.Command, args []string) error {
			return o.talk(command, func(ctx context.Context, c *client, p *printer) error {
				var operation response.Operation
				if err := c.do(ctx, http.MethodPost, pathFor("rollback", args), "", nil, &operation); err != nil {
					return err
				}
				if operation.Rollback {
					return watch(ctx, c, p, operation, request.Done)
				}
				return watch(ctx, c, p, operation, request.Withdrawn)
			})
		},
	}
}

func (o *otaOptions) pingCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ping", Short: "Check that the agent responds; for probes", Args: cobra.NoArgs,
		Long:    "Check that the agent responds; for probes. Where POD_UID is set, as in the agent's pod, only the agent of that pod counts.",
		Example: "  node-agent ota ping",
		RunE: func(command *cobra.Command, _ []string) error {
			return o.talk(command, func(ctx context.Context, c *client, _ *printer) error { return c.ping(ctx, os.Getenv("POD_UID")) })
		},
	}
}

// completeComponents completes the name of a component on this node.
func (o *otaOptions) completeComponents(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var status response.Status
	if len(args) > 0 || o.ask(command, "/v1/status", &status) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, c := range status.Components {
		names = append(names, cobra.CompletionWithDesc(c.Component, c.Namespace+"/"+c.DaemonSet))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeOperations completes the id of an operation.
func (o *otaOptions) completeOperations(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all response.Operations
	if len(args) > 0 || o.ask(command, "/v1/operations", &all) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, operation := range all.Operations {
		ids = append(ids, cobra.CompletionWithDesc(operation.ID, string(operation.State)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout bounds the wait for the agent.
const completionTimeout = 2 * time.Second

// ask sends a GET for a completion.
func (o *otaOptions) ask(command *cobra.Command, path string, into any) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}
