// Package cli implements the command line of testcluster.
package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/assets"
	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

// root holds the flags that all commands share.
type root struct{ cacheDir, kubernetes string }

// New returns the command line.
func New() *cobra.Command {
	r := &root{}
	cmd := &cobra.Command{
		Use:   "testcluster",
		Short: "Run a real Kubernetes control plane with simulated and real nodes, on this machine",
		Long: `testcluster starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler
and kwok on 127.0.0.1, built from Go modules and cached, and creates simulated
nodes that look like nodes with a GCU. Real nodes, which need root, are kubelets
with their own containerd. Nodes can be taken offline and brought back.`,
		Example: `  testcluster up --dir /tmp/tc --nodes 20
  eval "$(testcluster env --dir /tmp/tc)"
  kubectl get nodes
  testcluster node-off --dir /tmp/tc node-0003
  testcluster down --dir /tmp/tc`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Suggestions would make errors longer than one line.
		DisableSuggestions: true,
	}
	cmd.PersistentFlags().StringVar(&r.cacheDir, "cache-dir", "",
		"folder for the built control plane (default: gcu-operator-testcluster in the user's cache folder)")
	cmd.PersistentFlags().StringVar(&r.kubernetes, "kubernetes", os.Getenv("KUBERNETES"),
		"version of Kubernetes, such as 1.37.1 (default: $KUBERNETES, else that of control-plane.mod)")
	cmd.AddCommand(
		r.buildCommand(), r.assetsCommand(), r.kubectlPathCommand(), r.installCommand(),
		r.upCommand(), r.downCommand(), r.statusCommand(),
		r.nodeCommand(nodeOff), r.nodeCommand(nodeOn), r.nodeCommand(nodeKill), r.nodeCommand(nodeStart),
		r.componentCommand(componentKill), r.componentCommand(componentStart), r.componentCommand(componentFreeze), r.componentCommand(componentThaw),
		r.nodeExecCommand(), r.buildImageCommand(), r.loadImageCommand(),
		r.envCommand(), r.kubeconfigCommand())
	return cmd
}

func (r *root) locate() (assets.Assets, error) {
	modules, err := assets.Versions(r.kubernetes)
	if err != nil {
		return assets.Assets{}, err
	}
	return assets.Locate(modules, r.cacheDir)
}

// steps returns a printer for progress on the error stream; the output stream contains only
// the result of a command.
func steps(cmd *cobra.Command) *progress.Printer { return progress.New(cmd.ErrOrStderr()) }

// addDir adds the required flag --dir.
func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "directory of the cluster (required)")
	// These fail only for a flag that does not exist.
	_ = cmd.MarkFlagDirname("dir")
}
