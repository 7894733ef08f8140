package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func approveCommand(c *cli) *cobra.Command {
	var o output
	command := &cobra.Command{
		Use:   "approve GR [WAVE]",
		Short: "Approve a wave that awaits approval; without WAVE, list the waves",
		Long: `Approve a wave of the UpgradePolicy of a gr, or a batch of its plan. The approval is
valid for the current revision only, and only a wave that is waiting can be approved.
Without WAVE it lists the waves and shows which one is waiting.`,
		Example: `  # Which wave is waiting?
  kubectl gcu approve my-gr

  # Approve wave main
  kubectl gcu approve my-gr main

  # Approve a batch of the plan in force
  kubectl gcu approve my-gr batch-2`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeWaves(c.connection),
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, args []string) error {
			gr, err := cl.resource(ctx, args[:1])
			if err != nil {
				return err
			}
			g, err := readApprovalSources(ctx, cl, gr)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return listWaves(ctx, c.terminal, cl, gr, g, o)
			}
			return approveWave(ctx, c.terminal, cl, gr, args[1], g)
		}),
	}
	o.bind(command)
	return command
}

// approvalSources are the objects of a gr that may require approvals; a missing one is nil.
type approvalSources struct {
	policy *topsv1.UpgradePolicy
	plan   *topsv1.UpgradePlan
}

// readApprovalSources returns the UpgradePolicy and the UpgradePlan that a gr names.
func readApprovalSources(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (g approvalSources, err error) {
	policy, plan := gr.Annotations[topsv1.AnnotationUpgradePolicy], gr.Annotations[topsv1.AnnotationUpgradePlan]
	if policy == "" && plan == "" {
		return g, refused("gr %s names no UpgradePolicy (annotation %s) and no UpgradePlan: it has no waves", gr.Name, topsv1.AnnotationUpgradePolicy)
	}
	if policy != "" {
		g.policy = &topsv1.UpgradePolicy{}
		if err := cl.read(ctx, "", policy, g.policy); err != nil {
			return g, err
		}
	}
	if plan != "" {
		g.plan = &topsv1.UpgradePlan{}
		err = cl.read(ctx, "", plan, g.plan)
	}
	return g, err
}

func listWaves(ctx context.Context, out terminal, cl *cluster, gr *topsv1.GcuResource, g approvalSources, o output) error {
	dro, err := cl.rollout(ctx, gr.Name)
	if err != nil {
		return err
	}
	if dro == nil {
		return cl.noRollout(ctx, gr)
	}
	waves := display.WavesOf(dro, g.policy, g.plan, time.Now())
	return out.print(o, list[display.Wave]{waves}, func(s display.Style) string {
		return display.WavesText(waves, s) + display.WhichWait(waves) + "\n"
	})
}

func approveWave(ctx context.Context, out terminal, cl *cluster, gr *topsv1.GcuResource, wave string, g approvalSources) error {
	if err := changeable(gr); err != nil {
		return err
	}
	name := gr.Name
	if dro, err := cl.rollout(ctx, name); err != nil {
		return err
	} else if dro == nil {
		return cl.noRollout(ctx, gr)
	}
	var approval display.Approval
	var revision string
	err := change(ctx, cl, cl.namespace, name, func(dro *topsv1.DaemonRollout) (bool, error) {
		if g.plan != nil && rollout.FollowsAnother(dro.Status.LimitedTo, planfile.Version(g.plan)) {
			return false, refused("gr %s: its rollout follows another version of plan %s than the current one: review the plan, and approve once the rollout follows it", name, g.plan.Name)
		}
		var err error
		if approval, err = display.Approve(dro, display.WavesOf(dro, g.policy, g.plan, time.Now()), wave); err != nil {
			return false, refused("gr %s: %w%s", name, err, g.soon(dro))
		}
		revision = dro.Status.Revision
		metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationApprovedWaves, approval.Annotation)
		return !approval.Already, nil
	})
	switch {
	case err != nil:
		return err
	case approval.Already:
		out.say("wave %s of gr %s is already approved for revision %s", approval.Name, name, revision)
	default:
		out.say("wave %s of gr %s is approved for revision %s", approval.Name, name, revision)
	}
	return nil
}

// soon returns a hint that the rollout does not follow the plan yet, but will in a moment; "" if it does.
func (g approvalSources) soon(dro *topsv1.DaemonRollout) string {
	if g.plan == nil || rollout.Follows(dro.Status.LimitedTo, planfile.Version(g.plan)) {
		return ""
	}
	return "; the rollout does not follow plan " + g.plan.Name + " yet: repeat the command in a moment"
}
