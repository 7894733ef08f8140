package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

func nodesCommand(c *cli) *cobra.Command {
	var o output
	var state string
	var watch bool
	command := &cobra.Command{
		Use:   "nodes [GR]",
		Short: "List the nodes of a gr: state, reason, since when, operation",
		Long: `List every node that should run a component of a gr, one line each: its state
(` + strings.Join(display.States, ", ") + `), why, since when,
the phase and the task of its operation, and what to do. GR may be omitted when there is
only one.

With --watch it then prints a line for each node that changes, until it is stopped. With
--state as well, also for a node that is no longer in the state.`,
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
				return watchNodes(ctx, c.terminal, cl, gr.Name, &nodeTable{output: o, state: state})
			}
			fleet, err := fleetWithWarning(ctx, c.terminal, cl, gr)
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

// fleetWithWarning reads the nodes of a gr, and prints on standard error that the rollout which it should have is not found.
func fleetWithWarning(ctx context.Context, out terminal, cl *cluster, gr *topsv1.GcuResource) (*display.Fleet, error) {
	fleet, err := readFleet(ctx, cl, gr)
	if err != nil || fleet.Rollout != nil {
		return fleet, err
	}
	unseen, err := cl.unseenRollout(ctx, gr)
	if unseen != "" {
		fmt.Fprintln(out.ErrOut, "not shown: the rollout:", unseen)
	}
	return fleet, err
}

// watchNodes prints the nodes of a gr, in a state if one is given, and then a line for each that changes.
func watchNodes(ctx context.Context, out terminal, cl *cluster, name string, shown *nodeTable) error {
	from, err := newSource(ctx, cl)
	if err != nil {
		return err
	}
	api := linkReporter{terminal: out, link: dashboard.NewLink(from.Reach)}
	for {
		api.look(ctx, time.Now())
		gr, err := from.cached.resource(ctx, []string{name})
		if err != nil {
			return err
		}
		fleet, err := readFleet(ctx, from.cached, gr)
		if err != nil {
			return err
		}
		if err := shown.print(out, display.NodesOf(fleet), fleet.Now); err != nil {
			return err
		}
		if !next(ctx, from.Changed()) {
			return ctx.Err()
		}
	}
}

// linkReporter prints when the connection to the API server is lost, and when it is back.
type linkReporter struct {
	terminal
	link *dashboard.Link
	lost bool
}

// look prints when the caches are no longer up to date, and when they are again.
func (a *linkReporter) look(ctx context.Context, now time.Time) {
	err := a.link.Look(ctx, now)
	switch lost := err != nil; {
	case ctx.Err() != nil: // it is stopped
		return
	case lost && !a.lost:
		a.say("%s not up to date: %v", now.Format(time.TimeOnly), err)
	case !lost && a.lost:
		a.say("%s up to date again", now.Format(time.TimeOnly))
	}
	a.lost = err != nil
}

// nodeTable prints nodes: those in a state, all for "". Then it prints only what differs from the screen.
type nodeTable struct {
	output
	state string
	// lines by node, nil before the table was printed.
	lines map[string]string
}

// print prints the table, and later only lines that differ from the screen.
func (r *nodeTable) print(out terminal, nodes []display.Node, now time.Time) error {
	before := r.lines
	r.lines = map[string]string{}
	listed := display.Named(nodes, r.state)
	for i := range listed {
		r.lines[listed[i].Name] = r.line(&listed[i])
	}
	if before == nil {
		return out.print(r.output, nil, func(s display.Style) string { return display.NodesText(listed, s) })
	}
	for i := range nodes {
		n := &nodes[i]
		was, is := before[n.Name], r.lines[n.Name]
		switch {
		case is != "" && is != was:
			out.say("%s %s", now.Format(time.TimeOnly), is)
		case is == "" && was != "":
			out.say("%s %s: no longer %s: now %s", now.Format(time.TimeOnly), n.Name, r.state, strings.TrimPrefix(r.line(n), n.Name+": "))
		}
		delete(before, n.Name)
	}
	for _, gone := range slices.Sorted(maps.Keys(before)) {
		out.say("%s %s: gone", now.Format(time.TimeOnly), gone)
	}
	return nil
}

// line is the line of a node; in format wide with the id of its operation, as in the table.
func (r *nodeTable) line(n *display.Node) string {
	if op := n.Operation; r.format == formatWide && op != nil && op.ID != "" {
		return n.Line() + "; operation " + op.ID
	}
	return n.Line()
}

func orAny(state string) string {
	if state == "" {
		return "there"
	}
	return state
}
