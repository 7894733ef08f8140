package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/plaintext"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

const formatMermaid = "mermaid"

func planCommand(c *cli) *cobra.Command {
	o := output{also: []string{formatMermaid}}
	var file, check string
	var approved bool
	var l limit
	command := &cobra.Command{
		Use:               "plan [GR] [-f FILE] [--nodes …] [--components …] [--check FILE]",
		Short:             "Show what an upgrade would do: which nodes, when, and what is disrupted",
		Long:              planLong,
		Example:           planExample,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			if check != "" && (file != "" || approved || l.given() || o.format != formatTable) {
				return usageError("a plan already lists everything to upgrade: --check excludes -f, -o, --approved, --nodes, --components and --all")
			}
			if check != "" {
				return checkOnly(ctx, c, args, check)
			}
			q, cl, err := readQuestion(ctx, c, args, file, &l)
			if err != nil {
				return err
			}
			q.Approved = approved
			return showPlan(ctx, c, cl, q, o)
		}),
	}
	o.bind(command)
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the gr as it would be; - reads standard input")
	command.Flags().BoolVar(&approved, "approved", false, "treat every wave as approved")
	command.Flags().StringVar(&check, "check", "", "only check the plan in this `file` against the rules and the cluster; - reads standard input")
	l.bind(c.connection, command)
	return command
}

const (
	planLong = `Show what kubectl gcu upgrade with the same flags would do, without doing it: what
happens to each component, which nodes are upgraded, in which order and waves, how
many at once, with which tasks, which pods are evicted and what would block an
eviction, which nodes are left out and why, and how long it takes at the usual pace.
It uses the operator's own decisions and the current state of the cluster.

Without -f it shows what is left to do; --nodes, --components and --all then show what
would happen if the upgrade were limited to these, or not at all. The plan ends at a
wave that needs approval, unless --approved treats all waves as approved.

Nodes with the same tasks share a line; -o wide adds a line for each node. With -o json
the output equals the response of GET /gum/v1/gr/GR/plan. A plan to versions that the
UpgradePolicy allows on no node is refused, and the message names the allowed path.

With -o yaml the output is the plan as a file: jobs of stages of tasks, and batches of
nodes that have them, with every wave treated as approved. Nodes in flight, and those
that wait for something else than to be online, are not in it: an annotation of the plan
names them. Edit it: remove nodes, or a component with all its tasks; move nodes to other
batches; order, merge and divide batches; leave out prepulls and soaks. --check FILE says
whether it can still be run, or which rule it breaks, and which tasks no longer fit the
cluster.
kubectl gcu upgrade --plan FILE runs it.`
	planExample = `  # What would this upgrade do?
  kubectl gcu plan -f gr.yaml --approved

  # And on two nodes, the driver only?
  kubectl gcu plan -f gr.yaml --nodes node-1,node-2 --components driver

  # The plan as a file, to be edited, checked and run
  kubectl gcu plan -f gr.yaml -o yaml > plan.yaml
  kubectl gcu plan --check plan.yaml
  kubectl gcu upgrade --plan plan.yaml --step

  # What is left to do?
  kubectl gcu plan my-gr

  # The pods that would be evicted
  kubectl gcu plan -f gr.yaml -o json | jq -r '.nodes[].evicts[]?'`
)

// showPlan prints what an upgrade would do, or writes it as a file.
func showPlan(ctx context.Context, c *cli, cl *cluster, q *preview.Question, o output) error {
	if o.format == formatYAML {
		return writePlan(ctx, c, cl, q, o)
	}
	prediction, err := cl.predictor().Ask(ctx, *q)
	switch {
	case err != nil:
		return explain(err, "list", "")
	case prediction.Refused() != "":
		return refused("%s", prediction.Refused())
	case o.format == formatMermaid:
		_, err = fmt.Fprint(c.Out, display.PlanMermaid(prediction))
		return err
	}
	changes, err := display.ChangesOf(&q.Present.Spec, &q.Wanted.Spec)
	if err != nil {
		return err
	}
	return c.print(o, prediction, func(s display.Style) string { return display.PlanText(prediction, changes, s) })
}

// writePlan writes a plan as the content of a file.
func writePlan(ctx context.Context, c *cli, cl *cluster, q *preview.Question, o output) error {
	plan, wrong, err := cl.predictor().PlanFile(ctx, q.Present, q.Wanted)
	switch {
	case err != nil:
		return explain(err, "list", "")
	case wrong != "":
		return refused("%s", wrong)
	}
	if missing := plan.Annotations[topsv1.AnnotationNotPlanned]; missing != "" {
		fmt.Fprintln(c.ErrOut, plaintext.Line(missing))
	}
	content, err := planfile.Content(plan)
	if err != nil {
		return err
	}
	return c.print(o, content, nil)
}

// checkOnly checks the plan in a file.
func checkOnly(ctx context.Context, c *cli, args []string, file string) error {
	p, err := checkPlan(ctx, c, args, file)
	if err != nil {
		return err
	}
	if _, err := p.Stored(p.checked, p.checked, false); err != nil {
		return refused("%s: %w", file, err)
	}
	if err := p.dryRun(ctx, c.terminal); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	c.say("%s is a plan for gr %s that can be run", file, p.checked.Gr.Name)
	_, err = fmt.Fprint(c.Out, p.text())
	return err
}

// readQuestion reads the current gr and the wanted one.
func readQuestion(ctx context.Context, c *cli, args []string, file string, l *limit) (*preview.Question, *cluster, error) {
	if file == "" && !l.given() {
		cl, gr, err := c.resource(ctx, args)
		return &preview.Question{Present: gr, Wanted: gr}, cl, err
	}
	cl, wanted, err := readWanted(ctx, c, args, file, l)
	if err != nil {
		return nil, nil, err
	}
	q, err := compareWith(ctx, c.terminal, cl, wanted)
	return q, cl, err
}
