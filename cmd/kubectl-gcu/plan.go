package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/preview"
)

const formatMermaid = "mermaid"

func planCommand(c *cli) *cobra.Command {
	o := output{also: []string{formatMermaid}}
	var file string
	var approved bool
	var l limit
	command := &cobra.Command{
		Use:   "plan [GR] [-f FILE] [--nodes …] [--components …]",
		Short: "Shows what an upgrade would do: which nodes, when, and what is disrupted",
		Long: `Shows what kubectl gcu upgrade with the same flags would do, without doing it: what
happens to each component, which nodes are upgraded, in which order and waves, how
many at once, with which tasks, which pods are evicted and what would block an
eviction, which nodes are left out and why, and how long it takes at the usual pace.
It uses the operator's own decisions and the current state of the cluster.

Without -f it shows what is left to do; --nodes, --components and --all then show what
would happen if the upgrade were limited to these, or not at all. The plan ends at a
wave that needs approval, unless --approved treats all waves as approved.

Nodes with the same tasks share a line; -o wide adds a line for each node. With -o json
and -o yaml the output equals the response of GET /gum/v1/gr/GR/plan.`,
		Example: `  # What would this upgrade do?
  kubectl gcu plan -f gr.yaml --approved

  # And on two nodes, the driver only?
  kubectl gcu plan -f gr.yaml --nodes node-1,node-2 --components driver

  # What is left to do?
  kubectl gcu plan my-gr

  # The pods that would be evicted
  kubectl gcu plan -f gr.yaml -o json | jq -r '.nodes[].evicts[]?'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			q, cl, err := readQuestion(ctx, c, args, file, &l)
			if err != nil {
				return err
			}
			q.Approved = approved
			answer, err := cl.asker().Ask(ctx, *q)
			if err != nil {
				return explain(err, "list", "")
			}
			if o.format == formatMermaid {
				_, err = fmt.Fprint(c.Out, display.PlanMermaid(answer))
				return err
			}
			changes, err := display.ChangesOf(&q.Present.Spec, &q.Wanted.Spec)
			if err != nil {
				return err
			}
			return c.print(o, answer, func(s display.Style) string { return display.PlanText(answer, changes, s) })
		}),
	}
	o.bind(command)
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the gr as it would be; - reads the input")
	command.Flags().BoolVar(&approved, "approved", false, "treat every wave as approved")
	l.bind(c.connection, command)
	return command
}

// readQuestion reads the present and the wanted gr.
func readQuestion(ctx context.Context, c *cli, args []string, file string, l *limit) (*preview.Question, *cluster, error) {
	if file == "" && !l.given() {
		cl, gr, err := c.resource(ctx, args)
		return &preview.Question{Present: gr, Wanted: gr}, cl, err
	}
	cl, wanted, err := readWanted(ctx, c, args, file, l)
	if err != nil {
		return nil, nil, err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	if err := cl.read(ctx, "", wanted.GetName(), live); err != nil {
		return nil, nil, err
	}
	next, err := dryRun(ctx, c.terminal, cl, live, wanted)
	if err != nil {
		return nil, nil, err
	}
	q := &preview.Question{Present: &topsv1.GcuResource{}, Wanted: &topsv1.GcuResource{}}
	for from, to := range map[*unstructured.Unstructured]*topsv1.GcuResource{live: q.Present, next: q.Wanted} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
			return nil, nil, fmt.Errorf("reading gr %s: %w", wanted.GetName(), err)
		}
	}
	return q, cl, nil
}

// dryRun returns the upgraded gr, validated by the API server if the user may change it.
func dryRun(ctx context.Context, out terminal, cl *cluster, live, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next, err := writeSpec(ctx, cl, live, wanted, client.DryRunAll)
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitForbidden {
		fmt.Fprintln(out.ErrOut, "the file is not checked by the API server: you may not change gr", live.GetName())
		return next, nil // not validated, otherwise the same
	}
	return next, err
}
