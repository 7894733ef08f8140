package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/audit"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Formats of a report.
const (
	formatMarkdown = "markdown"
	formatHTML     = "html"
)

var reportFormats = []string{formatMarkdown, formatJSON, formatHTML}

func reportCommand(c *cli) *cobra.Command {
	var revision, plan, format string
	command := &cobra.Command{
		Use:   "report [GR] [--revision REVISION | --plan PLAN]",
		Short: "Write the record of an upgrade: who, what, where, when, and what failed",
		Long: `Write a report of the latest upgrade of a gr, or of an earlier one: who asked for it,
approved, paused and held, what ran on which node, when and for how long, and what
failed. As Markdown, as JSON, or as one page of HTML with a timeline.

It is made from what the cluster keeps: the last 40 entries of status.record of the
DaemonRollout, the last 20 operations of each node, and, for the latest upgrade, the pods
that it replaced. What is kept no longer is named at the end. Who asked is known for
this plugin and the REST API. It proves nothing: the audit log of the API server does.`,
		Example: `  # The latest upgrade
  kubectl gcu report

  # That of a plan, as a page with a timeline
  kubectl gcu report my-gr --plan my-plan -o html > report.html

  # Who decided what in the upgrade to an earlier revision?
  kubectl gcu report my-gr --revision my-gr-5d8f7b -o json | jq .timeline`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		PreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(reportFormats, format) {
				return usageError("-o %s is not one of %s", format, strings.Join(reportFormats, ", "))
			}
			return nil
		},
		RunE: c.onResource(func(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) error {
			report, err := readReport(ctx, cl, gr, revision, plan)
			if err != nil {
				return err
			}
			return writeReport(c.terminal, report, format)
		}),
	}
	command.Flags().StringVar(&revision, "revision", "", "the latest upgrade to this `revision` of the spec or of the rollout")
	command.Flags().StringVar(&plan, "plan", "", "the latest upgrade by this `plan`")
	command.Flags().StringVarP(&format, "output", "o", formatMarkdown, "`format`: "+strings.Join(reportFormats, ", "))
	complete(command, "output", reportFormats)
	// The flags exist.
	_ = command.RegisterFlagCompletionFunc("revision", completeUpgrades(c.connection, func(u *audit.Upgrade) string { return u.Spec }))
	_ = command.RegisterFlagCompletionFunc("plan", completeUpgrades(c.connection, func(u *audit.Upgrade) string { return u.Plan }))
	return command
}

// readReport reads all data about an upgrade of a gr. What the user may not read is left out, except the rollout.
func readReport(ctx context.Context, cl *cluster, gr *topsv1.GcuResource, revision, plan string) (*audit.Report, error) {
	dro, err := cl.rollout(ctx, gr.Name)
	if err != nil {
		return nil, err
	}
	if dro == nil {
		return nil, cl.noRollout(ctx, gr)
	}
	upgrade, ok := audit.Find(audit.Upgrades(dro.Status.Record), revision, plan)
	if !ok && revision+plan == "" {
		return nil, refused("the rollout of gr %s has no record yet: it begins with the next upgrade", gr.Name)
	} else if !ok {
		return nil, refused("the record of gr %s has no such upgrade; it has %s", gr.Name, keptUpgrades(dro))
	}
	in := audit.Input{Fleet: &display.Fleet{Resource: gr, Rollout: dro, Now: time.Now()}}
	fleet, err := readFleet(ctx, cl, gr)
	if err := leaveOut(&in.NotShown, "the nodes", err); err != nil {
		return nil, err
	}
	if fleet != nil {
		fleet.Rollout, in.Fleet = dro, fleet
	}
	in.Revisions, _, err = readHistory(ctx, cl, gr)
	if err := leaveOut(&in.NotShown, "the specs", err); err != nil {
		return nil, err
	}
	var plans topsv1.UpgradePlanList
	if err := leaveOut(&in.NotShown, "the plans", cl.all(ctx, "", &plans)); err != nil {
		return nil, err
	}
	in.Plans = slices.DeleteFunc(plans.Items, func(p topsv1.UpgradePlan) bool { return p.Spec.GcuResource != gr.Name })
	return audit.Of(&in, upgrade), nil
}

// keptUpgrades names the upgrades in a record.
func keptUpgrades(dro *topsv1.DaemonRollout) string {
	var names []string
	for _, u := range audit.Upgrades(dro.Status.Record) {
		name := "revision " + u.Revision
		if u.Spec != "" {
			name = "revision " + u.Spec
		}
		if u.Plan != "" {
			name = "plan " + u.Plan
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func writeReport(out terminal, r *audit.Report, format string) (err error) {
	text := r.Markdown()
	switch format {
	case formatJSON:
		text, err = plaintext.JSON(r)
	case formatHTML:
		text, err = r.HTML()
	}
	if err == nil {
		_, err = fmt.Fprint(out.Out, text)
	}
	return err
}

// completeUpgrades completes a name of an upgrade of the named gr, or of the only one.
func completeUpgrades(c connection, name func(*audit.Upgrade) string) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		gr, err := cl.resource(ctx, args)
		if err != nil {
			return nil, err
		}
		dro, err := cl.rollout(ctx, gr.Name)
		if err != nil || dro == nil {
			return nil, err
		}
		var names []string
		list := audit.Upgrades(dro.Status.Record)
		for i := range list {
			if n := name(&list[i]); n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return names, nil
	})
}
