// Package cli is the command line of testcluster.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/assets"
	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

// root holds what all commands share.
type root struct{ cacheDir string }

// New returns the command line.
func New() *cobra.Command {
	r := &root{}
	cmd := &cobra.Command{
		Use:   "testcluster",
		Short: "A real Kubernetes control plane with simulated and real nodes, on this machine",
		Long: `testcluster starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler
and kwok on 127.0.0.1, built from Go modules and cached, and makes simulated
nodes that look like nodes with a GCU. Real nodes, as root, are kubelets with their
own containerd. Nodes can be lost and brought back.`,
		Example: `  testcluster up --dir /tmp/tc --nodes 20
  eval "$(testcluster env --dir /tmp/tc)"
  kubectl get nodes
  testcluster node-off --dir /tmp/tc node-0003
  testcluster down --dir /tmp/tc`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// They would take several lines.
		DisableSuggestions: true,
	}
	cmd.PersistentFlags().StringVar(&r.cacheDir, "cache-dir", "",
		"folder for the built control plane (default: gcu-operator-testcluster in the user's cache folder)")
	cmd.AddCommand(
		r.buildCommand(), r.assetsCommand(), r.kubectlPathCommand(), r.installCommand(),
		r.upCommand(), r.downCommand(), r.statusCommand(),
		r.nodeCommand(nodeOff), r.nodeCommand(nodeOn), r.nodeCommand(nodeKill), r.nodeCommand(nodeStart),
		r.nodeExecCommand(), r.buildImageCommand(), r.loadImageCommand(),
		r.envCommand(), r.kubeconfigCommand())
	return cmd
}

func (r *root) locate() (assets.Assets, error) { return assets.Locate(assets.ControlPlane, r.cacheDir) }

// steps returns a printer for progress, which goes to the error stream: what a
// command answers is on the output stream alone.
func steps(cmd *cobra.Command) *progress.Printer { return progress.New(cmd.ErrOrStderr()) }

// addDir adds the flag --dir, which every command about a cluster needs.
func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "directory of the cluster (required)")
	// These fail only for a flag that does not exist.
	_ = cmd.MarkFlagDirname("dir")
}
