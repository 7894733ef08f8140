package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/install"
)

func (r *root) buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build missing programs of the control plane",
		Long: `Build etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl,
kubelet, kwok and the pause program of pods into the cache folder. Existing programs are not rebuilt. The first build takes about twelve minutes on two cores.`,
		Example: "  testcluster build",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := r.locate()
			if err != nil {
				return err
			}
			return a.Ensure(cmd.Context(), steps(cmd))
		},
	}
}

func (r *root) assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "assets",
		Short:   "Print the folder of the built control plane",
		Long:    `Print the folder of the built control plane, after building missing programs. It can be used as KUBEBUILDER_ASSETS by controller-runtime's envtest.`,
		Example: `  KUBEBUILDER_ASSETS="$(testcluster assets)" go test ./...`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.printBuilt(cmd, "") },
	}
}

func (r *root) kubectlPathCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "kubectl-path",
		Short:   "Print the path of the built kubectl",
		Long:    "Print the path of the built kubectl, after building missing programs.",
		Example: `  "$(testcluster kubectl-path)" --kubeconfig /tmp/tc/admin.kubeconfig get nodes`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.printBuilt(cmd, "kubectl") },
	}
}

func (r *root) installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install PROGRAM...",
		Short: "Install missing Debian programs",
		Long: `Install missing programs from Debian's packages with apt-get. If that is not
possible, the error says what to install.`,
		Example: "  testcluster install busybox",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return install.Programs(cmd.Context(), args...) },
	}
}

// printBuilt prints the path of a program in the cache folder, or of the folder.
func (r *root) printBuilt(cmd *cobra.Command, name string) error {
	a, err := r.locate()
	if err != nil {
		return err
	}
	if err := a.Ensure(cmd.Context(), steps(cmd)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), a.Path(name))
	return err
}
