package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

func nodesCommand(c *cli) *cobra.Command {
	var o output
	var state string
	var watch bool
	command := &cobra.Command{
		Use:   "nodes [GR]",
		Short: "Lists the nodes of a gr: state, reason, since when, operation",
		Long: `Lists every node that should run a component of a gr, one line each: its state
(` + strings.Join(display.States, ", ") + `), why, since when,
the phase and the task of its operation, and what to do. GR may be omitted when there is
only one.

With --watch it then prints a line for each node that changes, until it is stopped.`,
		Example: `  # All nodes
  kubectl gcu nodes

  # Those that failed, with the id of the operation
  kubectl gcu nodes my-gr --state failed -o wide

  # Follow the nodes that are in flight
  kubectl gcu nodes my-gr --state in-flight --watch

  # The names of the nodes that need intervention
  kubectl gcu nodes my-gr -o json | jq -r '.items[] | select(.stuck) | .name'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			if state != "" && !slices.Contains(display.States, state) {
				return usageError("--state %s is not one of %s", state, strings.Join(display.States, ", "))
			}
			if watch && o.format != formatTable && o.format != formatWide {
				return usageError("--watch prints text only: omit -o %s, or run nodes repeatedly", o.format)
			}
			cl, gr, err := c.resource(ctx, args)
			if err != nil {
				return err
			}
			if watch {
				return watchNodes(ctx, c.terminal, cl, gr.Name, state)
			}
			fleet, err := readFleet(ctx, cl, gr)
			if err != nil {
				return err
			}
			nodes := display.Named(display.NodesOf(fleet), state)
			return c.print(o, list[display.Node]{nodes}, func(s display.Style) string {
				if len(nodes) == 0 {
					return fmt.Sprintf("no node of gr %s is %s\n", gr.Name, orAny(state))
				}
				return display.NodesText(nodes, s)
			})
		}),
	}
	o.bind(command)
	command.Flags().StringVar(&state, "state", "", "only nodes in this `state`")
	command.Flags().BoolVarP(&watch, "watch", "w", false, "continue with a line for each change")
	complete(command, "state", display.States)
	return command
}

// watchNodes prints the nodes of a gr, in a state if one is given, and then a line for each that changes.
func watchNodes(ctx context.Context, out terminal, cl *cluster, name, state string) error {
	from, err := newSource(ctx, cl)
	if err != nil {
		return err
	}
	var shown map[string]string
	for {
		gr, err := from.cached.resource(ctx, []string{name})
		if err != nil {
			return err
		}
		fleet, err := readFleet(ctx, from.cached, gr)
		if err != nil {
			return err
		}
		nodes := display.NodesOf(fleet)
		if shown == nil {
			if err := out.print(output{format: formatTable}, nil, func(s display.Style) string { return display.NodesText(display.Named(nodes, state), s) }); err != nil {
				return err
			}
		}
		shown = printChanged(out, nodes, state, fleet.Now, shown)
		if !next(ctx, from.Changed()) {
			return ctx.Err()
		}
	}
}

// printChanged prints the nodes that differ from the lines shown before, nil for none, and those that are
// gone. It returns the lines of now.
func printChanged(out terminal, nodes []display.Node, state string, now time.Time, shown map[string]string) map[string]string {
	lines := map[string]string{}
	for i := range nodes {
		n := &nodes[i]
		lines[n.Name] = n.Line()
		if shown != nil && lines[n.Name] != shown[n.Name] && (state == "" || n.State == state) {
			out.say("%s %s", now.Format(time.TimeOnly), n.Line())
		}
	}
	for gone := range shown {
		if lines[gone] == "" && state == "" {
			out.say("%s %s: gone", now.Format(time.TimeOnly), gone)
		}
	}
	return lines
}

func orAny(state string) string {
	if state == "" {
		return "there"
	}
	return state
}
