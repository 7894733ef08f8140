package main

import (
	"context"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func historyCommand(c *cli) *cobra.Command {
	var o output
	var plans bool
	command := &cobra.Command{
		Use:   "history [GR] [--plan]",
		Short: "List the revisions of a gr and what changed between them",
		Long: `List the last ten revisions of the spec of a gr, newest first: what changed in each,
which one is current, and which one was the last at which every reachable node was
available. GR may be omitted when there is only one.

With --plan it lists the plans (kubectl gcu upgrade --plan) instead, newest first, with
the number of nodes that are done, failed and not done (undo: offline, held, in progress,
or not reached). Those of a plan that was rolled back are as they were before. -o wide
adds a line per node, -o json the result of each task.`,
		Example: `  # What changed, and when?
  kubectl gcu history

  # What became of the plans?
  kubectl gcu history my-gr --plan

  # The whole spec of an earlier revision
  kubectl gcu history my-gr -o json | jq '.items[] | select(.number == 3) | .spec'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			if plans {
				var all topsv1.UpgradePlanList
				if err := cl.all(ctx, "", &all); err != nil {
					return err
				}
				results := planfile.ResultsOf(gr, all.Items, true)
				return c.print(o, list[planfile.Result]{results}, func(s display.Style) string { return display.PlansText(results, s) })
			}
			history, notShown, err := readHistory(ctx, cl, gr)
			if err != nil {
				return err
			}
			return c.print(o, partialHistory{list[display.Revision]{history}, notShown}, func(s display.Style) string {
				text := "no spec of gr " + gr.Name + " is kept in namespace " + cl.namespace + "\n"
				if len(history) > 0 {
					text = display.HistoryText(history, s)
				}
				for _, n := range notShown {
					text += "\nnot shown: " + n + "\n"
				}
				return text
			})
		}),
	}
	o.bind(command)
	command.Flags().BoolVar(&plans, "plan", false, "list the plans and their results")
	return command
}

// partialHistory is a history in JSON or YAML, with what could not be read.
type partialHistory struct {
	list[display.Revision]
	NotShown []string `json:"notShown,omitempty"`
}

// readHistory reads the kept specs of a gr. Which one is the last known good one is not shown if the user may not read the
// rollout.
func readHistory(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (history []display.Revision, notShown []string, err error) {
	revisions, err := cl.revisions(ctx, gr.Name)
	if err != nil {
		return nil, nil, err
	}
	dro, err := cl.rollout(ctx, gr.Name)
	if err = leaveOut(&notShown, "the rollout", err); err != nil {
		return nil, nil, err
	}
	if len(notShown) > 0 {
		dro = nil
	}
	history, err = display.HistoryOf(gr, revisions, dro)
	return history, notShown, err
}
