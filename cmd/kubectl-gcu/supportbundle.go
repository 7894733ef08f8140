package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

func bundleCommand(c *cli) *cobra.Command {
	var file string
	limits := logLimits{}
	command := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect diagnostics, without secrets, into a tarball",
		Long: `Collect diagnostics into a tarball: grs, rollouts, NodeUpgrades,
UpgradePolicies, what the grs deployed, their pods, nodes, events and revisions,
logs of the operator and of node agents (troubled nodes first), and versions. What you
are not allowed to read is left out and listed in errors.txt.

Secrets and ConfigMaps are not read. Values of environment variables are
redacted, except a few that are known to be harmless, and so is anything in objects
and logs that looks like a password, a token or a key. Names of nodes, pods, images and
registries are kept: review the bundle before you share it.`,
		Example: `  # Into gcu-support-<time>.tar.gz in this folder
  kubectl gcu support-bundle

  # With more of the logs
  kubectl gcu support-bundle --file /tmp/case-17.tar.gz --log-lines 50000 --agents 50`,
		Args: cobra.NoArgs,
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, _ []string) error {
			logs, err := kubernetes.NewForConfig(cl.config)
			if err != nil {
				return fmt.Errorf("connecting: %w", err)
			}
			return writeBundle(ctx, c.terminal, &collector{cluster: cl, logs: logs, limits: limits}, file)
		}),
	}
	command.Flags().StringVar(&file, "file", "", "`file` to write; - writes to standard output; default gcu-support-<time>.tar.gz")
	command.Flags().Int64Var(&limits.lines, "log-lines", 5000, "how many `lines` at the end of each log")
	command.Flags().IntVar(&limits.agents, "agents", 10, "`number` of node agents whose logs are taken")
	return command
}

// writeBundle writes the bundle to a file, which appears when it is complete.
func writeBundle(ctx context.Context, out terminal, from *collector, file string) error {
	root := "gcu-support-" + time.Now().UTC().Format("20060102-150405")
	if file == "-" {
		if err := from.into(ctx, plaintext.Unwrap(out.Out), root); err != nil {
			return err
		}
		fmt.Fprintln(out.ErrOut, plaintext.Line(from.summary()))
		return nil
	}
	if file == "" {
		file = root + ".tar.gz"
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".gcu-support-*") // 0600
	if err != nil {
		return fmt.Errorf("making the file: %w", err)
	}
	defer os.Remove(temporary.Name()) // already renamed on success
	err = from.into(ctx, temporary, root)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	out.say("%s is written; %s", file, from.summary())
	return nil
}
