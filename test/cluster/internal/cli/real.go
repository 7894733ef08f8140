package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
	"github.com/topsops/gcu-operator/test/cluster/internal/image"
)

func (r *root) nodeExecCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "node-exec --dir DIR NAME -- PROGRAM [ARGUMENT...]",
		Short: "Run a program on a real node",
		Long: `Run a program on a real node, like an administrator logged in there. Services are
restarted with /etc/init.d/docker, containerd or kubelet, which return when the
service works again. Fails if the program fails.`,
		Example: `  testcluster node-exec --dir /tmp/tc real-1 -- curl -s http://127.0.0.1:10267/pods
  testcluster node-exec --dir /tmp/tc real-3 -- /etc/init.d/docker restart`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			if err := checkReal(state, args[:1]); err != nil {
				return err
			}
			if err := state.Real.Exec(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[1:]...); err != nil {
				return fmt.Errorf("running %s on node %s: %w", args[1], args[0], err)
			}
			return nil
		},
	}
	addDir(cmd, &dir)
	return cmd
}

func (r *root) loadImageCommand() *cobra.Command {
	var dir string
	var nodes []string
	cmd := &cobra.Command{
		Use:   "load-image --dir DIR ARCHIVE...",
		Short: "Load images into real nodes",
		Long: `Load images from archives, as written by "docker save" and "testcluster build-image",
into the container runtimes of real nodes. Use them with imagePullPolicy
IfNotPresent or Never: there is no registry to pull from.`,
		Example: `  testcluster load-image --dir /tmp/tc agent.tar
  testcluster load-image --dir /tmp/tc --node real-1 driver-v1.tar driver-v2.tar`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, archives []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			if err := checkReal(state, nodes); err != nil {
				return err
			}
			if len(nodes) == 0 {
				nodes = state.Real.Names()
			}
			for _, name := range nodes {
				for _, archive := range archives {
					if err := state.Real.LoadImage(cmd.Context(), name, archive); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().StringArrayVar(&nodes, "node", nil, "a `node` to load into; may be repeated (default: all real nodes)")
	return cmd
}

func (r *root) buildImageCommand() *cobra.Command {
	var spec image.Spec
	var output string
	cmd := &cobra.Command{
		Use:   "build-image --tag NAME:TAG --output ARCHIVE SOURCE:/DESTINATION...",
		Short: "Build an image from static programs",
		Long: `Build an image with one layer that contains only the named files and folders, and write
it to an archive that load-image reads. Programs must be static.`,
		Example: `  testcluster build-image --tag gcu/node-agent:v1 --output agent.tar --entrypoint /usr/bin/node-agent bin/node-agent:/usr/bin/node-agent`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if spec.Tag == "" || output == "" {
				return errors.New("--tag and --output are required")
			}
			for _, arg := range args {
				file, err := image.ParseFile(arg)
				if err != nil {
					return err
				}
				spec.Files = append(spec.Files, file)
			}
			return image.Write(output, spec)
		},
	}
	cmd.Flags().StringVar(&spec.Tag, "tag", "", "name and tag of the image (required)")
	cmd.Flags().StringVar(&output, "output", "", "file to write (required)")
	cmd.Flags().StringArrayVar(&spec.Entrypoint, "entrypoint", nil, "the program to run, then one `argument` each; may be repeated")
	cmd.Flags().StringArrayVar(&spec.Env, "env", nil, "an environment variable `NAME=VALUE`; may be repeated")
	return cmd
}

// checkReal returns an error if a name is not a real node of the cluster.
func checkReal(state *cluster.State, names []string) error {
	if state.Real == nil {
		return errors.New("the cluster has no real nodes; start it with up --real-nodes")
	}
	for _, name := range names {
		if !state.IsReal(name) {
			return fmt.Errorf("%s is no real node; these are: %s", name, state.Real.Names())
		}
	}
	return nil
}
