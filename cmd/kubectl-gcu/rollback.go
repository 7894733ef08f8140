package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

func rollbackCommand(c *cli) *cobra.Command {
	var to string
	command := &cobra.Command{
		Use:   "rollback [GR]",
		Short: "Restore an earlier revision of a gr",
		Long: `Ask the operator to restore an earlier revision of a gr, by default the previous one,
and print what changes. The operator writes the spec, and nodes are rolled back under
the same rules as an upgrade: kubectl gcu status shows the progress. Pods that already
run the earlier version are not restarted.`,
		Example: `  # Back to the previous revision
  kubectl gcu rollback my-gr

  # Back to revision 3 of kubectl gcu history
  kubectl gcu rollback my-gr --to 3`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			return rollBack(ctx, c.terminal, cl, gr.Name, to)
		}),
	}
	command.Flags().StringVar(&to, "to", "", "`revision` to go back to, by number or name; default: the one before the current one")
	_ = command.RegisterFlagCompletionFunc("to", completeRevisions(c.connection)) // the flag exists
	return command
}

func rollBack(ctx context.Context, out terminal, cl *cluster, name, to string) error {
	var target *display.Revision
	var changes []display.Change
	var only string
	err := change(ctx, cl, "", name, func(gr *topsv1.GcuResource) (bool, error) {
		err := changeable(gr)
		if err != nil {
			return false, err
		}
		only = gr.Annotations[topsv1.AnnotationUpgradeOnly]
		if target, err = restored(ctx, cl, gr, to); err != nil {
			return false, err
		}
		asked, is := gr.Annotations[topsv1.AnnotationRollbackTo]
		if is && asked != target.Name { // also where the target is the current spec: the operator would leave it all the same
			return false, rollbackPending(name, asked)
		}
		if changes, err = display.ChangesOf(&gr.Spec, target.Spec); err != nil || len(changes) == 0 || is {
			return false, err
		}
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationRollbackTo, target.Name)
		return true, nil
	})
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		out.say("gr %s already has the spec of revision %d (%s)", name, target.Number, target.Name)
		return nil
	}
	out.say("gr %s goes back to revision %d (%s):", name, target.Number, target.Name)
	_, err = fmt.Fprint(out.Out, display.ChangesText(changes, "  "))
	if only != "" {
		out.say("  limited to %s, as the upgrade was: what it leaves out waits until kubectl gcu upgrade %s --all", display.LimitText(only), name)
	}
	return err
}

// rollbackPending returns the refusal of a change that another rollback of a gr, to the given revision, would take back.
func rollbackPending(name, to string) error {
	return refused("a rollback of gr %s to %s has already been requested: wait for it, or remove annotation %s", name, to, topsv1.AnnotationRollbackTo)
}

// restored returns the revision of a gr that a rollback restores; to is its number or name, "" for the one before
// the current one.
func restored(ctx context.Context, cl *cluster, gr *topsv1.GcuResource, to string) (*display.Revision, error) {
	history, _, err := readHistory(ctx, cl, gr)
	if err != nil {
		return nil, err
	}
	target, err := display.FindRevision(history, to)
	if err != nil {
		return nil, refused("gr %s: %w; kubectl gcu history %s lists them", gr.Name, err, gr.Name)
	}
	if target.Problem != "" {
		return nil, refused("gr %s: %s", gr.Name, target.Problem)
	}
	return target, nil
}
