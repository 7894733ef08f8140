package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

func statusCommand(c *cli) *cobra.Command {
	var o output
	var watch bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "status [GR]",
		Short: "Show the state of a gr and its rollout, why, and what to do",
		Long: `Show the state of a gr: each component, the rollout, its estimated time and
maintenance window, what nodes wait for, and which nodes failed, are stuck or were
skipped, with the reason, since when, and what to do. Without GR it shows all grs.

With --watch it follows the gr until it is done (exit code 0) or stopped (3): with a
progress bar on a terminal, otherwise with a line per change. It keeps watching a gr
that waits for a person, for example because it is paused.`,
		Example: `  # All grs
  kubectl gcu status

  # Follow one until it is done, at most an hour
  kubectl gcu status my-gr --watch --timeout 1h

  # Is it done? For a script
  test "$(kubectl gcu status my-gr -o json | jq -r .outcome.state)" = Done`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			if watch && o.format != formatTable && o.format != formatWide {
				return usageError("--watch prints text only: omit -o %s, or run status repeatedly", o.format)
			}
			cl, err := c.connect()
			if err != nil {
				return err
			}
			if watch {
				return watchStatus(ctx, c.terminal, cl, args, o, timeout)
			}
			return showStatus(ctx, c.terminal, cl, args, o)
		}),
	}
	o.bind(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "continue until it is done or stopped")
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to watch, such as 30m; 0: no limit")
	return command
}

func showStatus(ctx context.Context, out terminal, cl *cluster, args []string, o output) error {
	grs, err := cl.resources(ctx, args)
	if err != nil {
		return err
	}
	statuses := make([]display.Status, 0, len(grs))
	for i := range grs {
		s, err := readStatus(ctx, cl, &grs[i])
		if err != nil {
			return err
		}
		statuses = append(statuses, s)
	}
	if len(args) > 0 {
		return out.print(o, statuses[0], statuses[0].Text)
	}
	return out.print(o, list[display.Status]{statuses}, func(style display.Style) string {
		texts := make([]string, 0, len(statuses))
		for i := range statuses {
			texts = append(texts, statuses[i].Text(style))
		}
		return strings.Join(texts, "\n")
	})
}

// readStatus reads the status of a gr; what the user may not read is left out and listed.
func readStatus(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (display.Status, error) {
	var notShown []string
	dro, err := cl.rollout(ctx, gr.Name)
	if err = leaveOut(&notShown, "the rollout", err); err != nil {
		return display.Status{}, err
	}
	var upgrades topsv1.NodeUpgradeList
	if dro != nil {
		if err = leaveOut(&notShown, "operations of nodes", cl.all(ctx, "", &upgrades)); err != nil {
			return display.Status{}, err
		}
	}
	windows, err := readWindows(ctx, cl, gr, dro)
	if err = leaveOut(&notShown, "the maintenance window", err); err != nil {
		return display.Status{}, err
	}
	deployed := asDeployed(ctx, cl, gr, dro, &notShown)
	s := display.StatusOf(deployed, dro, upgrades.Items, notShown, time.Now())
	if s.Rollout != nil {
		s.Rollout.Windows = windows
	}
	return s, cl.noteUnseen(ctx, gr, dro, &s)
}

// asDeployed returns a gr with the spec that is deployed, or with none and a note if that is not known.
func asDeployed(ctx context.Context, cl *cluster, gr *topsv1.GcuResource, dro *topsv1.DaemonRollout, notShown *[]string) *topsv1.GcuResource {
	deployed, err := cl.inForce(ctx, gr, dro)
	if err != nil {
		*notShown = append(*notShown, "the versions of the components: "+err.Error())
		deployed = gr.DeepCopy()
		deployed.Spec = topsv1.GcuResourceSpec{}
	}
	return deployed
}

// readWindows reads the maintenance window of a rollout, and the nodes only if it depends on them.
func readWindows(ctx context.Context, cl *cluster, gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) ([]display.Window, error) {
	if dro == nil {
		return nil, nil
	}
	policy, err := readPolicy(ctx, cl, gr)
	if policy == nil {
		return nil, err
	}
	if !display.AskNodes(policy) {
		return display.WindowsOf(dro, policy, nil, time.Now()), nil
	}
	fleet, err := readFleet(ctx, cl, gr)
	if err != nil {
		return nil, err
	}
	return display.WindowsOf(dro, policy, labelsOf(fleet, display.NodesOf(fleet)), fleet.Now), nil
}

// readPolicy returns the UpgradePolicy that a gr names, nil if it names none, or one that does not exist or has an
// invalid name: the rollout reports that.
func readPolicy(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (*topsv1.UpgradePolicy, error) {
	name := gr.Annotations[topsv1.AnnotationUpgradePolicy]
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil
	}
	policy := &topsv1.UpgradePolicy{}
	if err := cl.read(ctx, "", name, policy); err != nil {
		return nil, denial.IgnoreNotFound(err)
	}
	return policy, nil
}

func watchStatus(ctx context.Context, out terminal, cl *cluster, args []string, o output, timeout time.Duration) error {
	gr, err := cl.resource(ctx, args)
	if err != nil {
		return err
	}
	followed := follow(ctx, out, cl, gr.Name, timeout, nil, nil)
	if ctx.Err() == nil && !errors.Is(followed, errDeleted) {
		if err := showStatus(ctx, out, cl, []string{gr.Name}, o); err != nil {
			return fmt.Errorf("after watching: %w", err)
		}
	}
	return followed
}
