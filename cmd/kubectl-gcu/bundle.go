package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/topsops/gcu-operator/pkg/gcucli/bundle"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

func (c *cli) bundleCommand() *cobra.Command {
	var file string
	limits := logLimits{}
	command := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collects diagnostics, without secrets, into a tarball",
		Long: `Collects diagnostics into a tarball: grs, rollouts, NodeUpgrades,
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
		RunE: does(func(ctx context.Context, _ []string) error {
			cl, err := c.connect()
			if err != nil {
				return err
			}
			logs, err := kubernetes.NewForConfig(cl.config)
			if err != nil {
				return fmt.Errorf("connecting: %w", err)
			}
			return c.supportBundle(ctx, &collector{cluster: cl, logs: logs, limits: limits}, file)
		}),
	}
	command.Flags().StringVar(&file, "file", "", "`file` to write; - is the output; default gcu-support-<time>.tar.gz")
	command.Flags().Int64Var(&limits.lines, "log-lines", 5000, "how many `lines` at the end of each log")
	command.Flags().IntVar(&limits.agents, "agents", 10, "`number` of node agents whose logs are taken")
	return command
}

// supportBundle collects into a file that appears when it is whole.
func (c *cli) supportBundle(ctx context.Context, from *collector, file string) error {
	root := "gcu-support-" + time.Now().UTC().Format("20060102-150405")
	if file == "-" {
		return from.into(ctx, c.Out, root)
	}
	if file == "" {
		file = root + ".tar.gz"
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".gcu-support-*") // 0600
	if err != nil {
		return fmt.Errorf("making the file: %w", err)
	}
	defer os.Remove(temporary.Name()) // gone already when all went well
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
	c.say("%s is written; %s", file, from.summary())
	return nil
}

// into writes the whole tarball.
func (f *collector) into(ctx context.Context, out io.Writer, root string) error {
	b := bundle.New(out, root, time.Now())
	f.collect(ctx)
	for _, file := range f.files {
		var err error
		if file.objects != nil {
			err = b.Objects(file.name, file.objects)
		} else {
			err = b.Text(file.name, file.text)
		}
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Close()
}

// addVersions adds a file with the versions.
func (f *collector) addVersions(ctx context.Context) {
	v := versions{Plugin: version}
	f.cluster.addVersions(ctx, &v)
	data, err := yaml.Marshal(v)
	f.miss("versions", err)
	f.text("versions.yaml", string(data))
}

// addStatus adds what kubectl gcu status and nodes tell.
func (f *collector) addStatus(ctx context.Context) {
	grs, err := f.cluster.resources(ctx, nil)
	f.miss("status", err)
	style := view.Style{Now: time.Now(), Wide: true}
	for i := range grs {
		s, err := f.cluster.status(ctx, &grs[i])
		f.miss("status of gr "+grs[i].Name, err)
		text := s.Text(style)
		fleet, err := f.cluster.fleet(ctx, &grs[i])
		f.miss("nodes of gr "+grs[i].Name, err)
		if err == nil {
			nodes := view.NodesOf(fleet)
			text += "\n" + view.NodesText(nodes, style)
			f.trouble(nodes)
		}
		f.text("status/"+grs[i].Name+".txt", text)
	}
}
