package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

const paused = "true"

func pauseCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "pause [GR]",
		Short: "Pause a rollout: no new node is started, and what is in flight completes",
		Long: `Set the annotation ` + topsv1.AnnotationPaused + ` of a gr to "true": no new node is
started, and nodes in flight complete. kubectl gcu resume removes it.`,
		Example: `  # Pause the only gr
  kubectl gcu pause

  # Pause one of several
  kubectl gcu pause my-gr`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			changed, err := setPaused(ctx, cl, gr.Name, true)
			if err != nil {
				return err
			}
			if !changed {
				c.say("gr %s is already paused", gr.Name)
				return nil
			}
			c.say("gr %s is paused: no new node is started, what is in flight finishes; kubectl gcu resume %s resumes it", gr.Name, gr.Name)
			return nil
		}),
	}
}

// setPaused sets or removes the annotation of a gr; changed is false if it was so already.
func setPaused(ctx context.Context, cl *cluster, name string, to bool) (changed bool, err error) {
	err = change(ctx, cl, "", name, func(gr *topsv1.GcuResource) (bool, error) {
		if err := changeable(gr); err != nil {
			return false, err
		}
		value, is := gr.Annotations[topsv1.AnnotationPaused]
		if to {
			changed = !strings.EqualFold(value, paused)
			metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationPaused, paused)
			return changed, nil
		}
		changed = is && !strings.EqualFold(value, "false")
		delete(gr.Annotations, topsv1.AnnotationPaused)
		return changed, nil
	})
	return changed, err
}

func resumeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "resume [GR]",
		Short: "Resume a paused or halted rollout",
		Long: `Remove the annotation ` + topsv1.AnnotationPaused + ` of a gr. If its rollout halted
because too many nodes failed, the failures are cleared: those nodes are retried, and
new ones are started. It also clears the failures of a gr that is neither paused nor
halted. Fix what made the nodes fail first, or the rollout halts again.

If its policy rolled it back, the revision that was rejected is rolled out again. Of a gr
that is also paused, resume only removes the pause, and the revision stays rejected until
the next resume.`,
		Example: `  # Resume the only gr
  kubectl gcu resume

  # Resume one of several
  kubectl gcu resume my-gr`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			return resumeRollout(ctx, c.terminal, cl, gr.Name)
		}),
	}
}

func resumeRollout(ctx context.Context, out terminal, cl *cluster, name string) error {
	unpaused, err := setPaused(ctx, cl, name, false)
	if err != nil {
		return err
	}
	if unpaused {
		out.say("gr %s is no longer paused", name)
	}
	dro, err := cl.rollout(ctx, name)
	if err != nil {
		return err
	}
	if dro == nil {
		return resumeUnseen(ctx, out, cl, name, unpaused)
	}
	switch {
	case dro.Status.Rollback != nil && unpaused: // the pause may be there only to look into what was rolled back
		out.say("revision %s stays rejected; kubectl gcu resume %s again rolls it out", dro.Status.Rollback.RejectedRevision, name)
	case halted(dro) || dro.Status.Rollback != nil || dro.Status.FailedNodes > 0 && !unpaused:
		return clearFailures(ctx, out, cl, name)
	case !unpaused:
		out.say("gr %s is neither paused nor halted, and no node failed: there is nothing to resume", name)
	case dro.Status.FailedNodes > 0:
		out.say("%s failed, which does not halt it; kubectl gcu resume %s again clears the failure", message.Count(int(dro.Status.FailedNodes), "node"), name)
	}
	return nil
}

// resumeUnseen ends the resume of a gr whose rollout is not found, so that it is not known whether it is halted.
func resumeUnseen(ctx context.Context, out terminal, cl *cluster, name string, unpaused bool) error {
	gr, err := cl.resource(ctx, []string{name})
	if err != nil {
		return err
	}
	unseen, err := cl.unseenRollout(ctx, gr)
	switch {
	case err != nil:
		return err
	case unseen != "" && unpaused:
		out.say("whether nodes failed is not known: %s", unseen)
	case unseen != "":
		return refused("%s", unseen)
	case !unpaused:
		out.say("gr %s is not paused, and no rollout of it is found in namespace %s: there is nothing to resume", name, cl.namespace)
	}
	return nil
}

// clearFailures lets failed nodes be retried.
func clearFailures(ctx context.Context, out terminal, cl *cluster, name string) error {
	var cleared int32
	rejected := ""
	err := change(ctx, cl, cl.namespace, name, func(dro *topsv1.DaemonRollout) (bool, error) {
		if rb := dro.Status.Rollback; rb != nil {
			rejected = rb.RejectedRevision
		}
		if cleared = dro.Status.FailedNodes; cleared == 0 && !halted(dro) && dro.Status.Rollback == nil {
			return false, nil
		}
		if approvals, ok := dro.ApprovalsAfterRejection(); ok {
			dro.Annotations[topsv1.AnnotationApprovedWaves] = approvals
		}
		metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationResume, time.Now().UTC().Format(time.RFC3339Nano))
		return true, nil
	})
	if err != nil {
		return err
	}
	if rejected != "" {
		out.say("revision %s is no longer rejected: it is rolled out again", rejected)
	}
	out.say("the rollout of gr %s resumes; failures cleared on %s", name, message.Count(int(cleared), "node"))
	return nil
}

// halted reports whether too many nodes failed.
func halted(dro *topsv1.DaemonRollout) bool {
	return meta.IsStatusConditionTrue(dro.Status.Conditions, topsv1.RolloutHalted)
}
