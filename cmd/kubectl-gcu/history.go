package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

func (c *cli) historyCommand() *cobra.Command {
	var o output
	command := &cobra.Command{
		Use:   "history [GR]",
		Short: "Lists the revisions of a gr and what changed between them",
		Long: `Lists the last ten revisions of the spec of a gr, newest first: what changed in each,
which one is current, and which one was the last at which every reachable node was
available. GR may be omitted when there is only one.`,
		Example: `  # What changed, and when?
  kubectl gcu history

  # The whole spec of an earlier revision
  kubectl gcu history my-gr -o json | jq '.items[] | select(.number == 3) | .spec'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeResources,
		RunE: does(func(ctx context.Context, args []string) error {
			cl, gr, err := c.resource(ctx, args)
			if err != nil {
				return err
			}
			history, err := cl.history(ctx, gr)
			if err != nil {
				return err
			}
			return c.print(o, list[view.Revision]{history}, func(s view.Style) string {
				if len(history) == 0 {
					return "no spec of gr " + gr.Name + " is kept in namespace " + cl.namespace + "\n"
				}
				return view.HistoryText(history, s)
			})
		}),
	}
	o.bind(command)
	return command
}

// history reads the kept specs of a gr. Which one is known to be good is left out
// when the rollout may not be read.
func (c *cluster) history(ctx context.Context, gr *topsv1.GcuResource) ([]view.Revision, error) {
	revisions, err := c.revisions(ctx, gr.Name)
	if err != nil {
		return nil, err
	}
	var notShown []string
	dro, err := c.rollout(ctx, gr.Name)
	if err = leaveOut(&notShown, "the rollout", err); err != nil {
		return nil, err
	}
	if len(notShown) > 0 {
		dro = nil
	}
	return view.HistoryOf(gr, revisions, dro)
}

func (c *cli) rollbackCommand() *cobra.Command {
	var to string
	command := &cobra.Command{
		Use:   "rollback [GR]",
		Short: "Restores an earlier revision of a gr",
		Long: `Asks the operator to restore an earlier revision of a gr, by default the previous one,
and prints what changes. The operator writes the spec, and nodes are rolled back under
the same rules as an upgrade: kubectl gcu status shows the progress. Pods that already
run the earlier version are not restarted.`,
		Example: `  # Back to the previous revision
  kubectl gcu rollback my-gr

  # Back to revision 3 of kubectl gcu history
  kubectl gcu rollback my-gr --to 3`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeResources,
		RunE: does(func(ctx context.Context, args []string) error {
			cl, gr, err := c.resource(ctx, args)
			if err != nil {
				return err
			}
			return c.rollback(ctx, cl, gr.Name, to)
		}),
	}
	command.Flags().StringVar(&to, "to", "", "`revision` to go back to, by number or name; default: the one before the present")
	_ = command.RegisterFlagCompletionFunc("to", c.completeRevisions) // the flag exists
	return command
}

func (c *cli) rollback(ctx context.Context, cl *cluster, name, to string) error {
	var target *view.Revision
	var changes []view.Change
	var only string
	err := change(ctx, cl, "", name, func(gr *topsv1.GcuResource) (bool, error) {
		only = gr.Annotations[topsv1.AnnotationUpgradeOnly]
		history, err := cl.history(ctx, gr)
		if err != nil {
			return false, err
		}
		if target, err = view.FindRevision(history, to); err != nil {
			return false, refused("gr %s: %w; kubectl gcu history %s lists them", name, err, name)
		}
		if target.Problem != "" {
			return false, refused("gr %s: %s", name, target.Problem)
		}
		if changes, err = view.ChangesOf(&gr.Spec, target.Spec); err != nil || len(changes) == 0 {
			return false, err
		}
		switch asked, is := gr.Annotations[topsv1.AnnotationRollbackTo]; {
		case is && asked == target.Name:
			return false, nil
		case is:
			return false, refused("a rollback of gr %s to %s is asked for already: wait for it, or take annotation %s away", name, asked, topsv1.AnnotationRollbackTo)
		}
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationRollbackTo, target.Name)
		return true, nil
	})
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		c.say("gr %s has the spec of revision %d (%s) already", name, target.Number, target.Name)
		return nil
	}
	c.say("gr %s goes back to revision %d (%s):", name, target.Number, target.Name)
	_, err = fmt.Fprint(c.Out, view.ChangesText(changes, "  "))
	if only != "" {
		c.say("  limited to %s, as the upgrade was: what it leaves out waits until kubectl gcu upgrade %s --all", onlyWords(only), name)
	}
	return err
}
