package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (r *root) envCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "env --dir DIR",
		Short: "Print shell lines that point kubectl to a cluster",
		Long: `Print shell lines that set KUBECONFIG to the cluster's administrator and put the
built kubectl first in PATH.`,
		Example: `  eval "$(testcluster env --dir /tmp/tc)"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\nexport PATH=%s:\"$PATH\"\n",
				shellQuote(state.Layout().AdminKubeconfig()), shellQuote(state.Assets))
			return err
		},
	}
	addDir(cmd, &dir)
	return cmd
}

// shellQuote returns s as one word for a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (r *root) kubeconfigCommand() *cobra.Command {
	var dir, account, node, output string
	cmd := &cobra.Command{
		Use:   "kubeconfig --dir DIR --serviceaccount NAMESPACE/NAME",
		Short: "Write a kubeconfig with the rights of a ServiceAccount",
		Long: `Request a token for an existing ServiceAccount, valid for 24 hours, write a
kubeconfig with it and print the kubeconfig's path.

With --node the token is bound to that node (authentication.kubernetes.io/node-name),
like the token of a pod there. It is valid as long as the Node object exists.`,
		Example: `  testcluster kubeconfig --dir /tmp/tc --serviceaccount default/default
  testcluster kubeconfig --dir /tmp/tc --serviceaccount gcu/manager --output manager.kubeconfig
  testcluster kubeconfig --dir /tmp/tc --serviceaccount gcu/agent --node node-0001`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, name, err := parseAccount(account)
			if err != nil {
				return err
			}
			state, err := loadRunning(dir)
			if err != nil {
				return err
			}
			if output == "" {
				output = state.AccountKubeconfig(namespace, name, node)
			}
			path, err := filepath.Abs(output)
			if err != nil {
				return fmt.Errorf("resolving %s: %w", output, err)
			}
			if err := state.WriteAccountKubeconfig(cmd.Context(), namespace, name, node, path); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVar(&account, "serviceaccount", "", "the ServiceAccount as NAMESPACE/NAME (required)")
	cmd.Flags().StringVar(&node, "node", "", "the node that the token is bound to (default: none)")
	cmd.Flags().StringVar(&output, "output", "", "file to write (default: in the cluster's directory, removed with it)")
	return cmd
}

// parseAccount splits NAMESPACE/NAME.
func parseAccount(account string) (namespace, name string, err error) {
	if account == "" {
		return "", "", errors.New("--serviceaccount is required")
	}
	namespace, name, found := strings.Cut(account, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("--serviceaccount must be NAMESPACE/NAME, not %q", account)
	}
	return namespace, name, nil
}
