package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
)

func (r *root) statusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "status --dir DIR",
		Short:   "Show the processes and nodes of a cluster",
		Long:    "Show the processes and nodes of a cluster. Fails if a process has died.",
		Example: "  testcluster status --dir /tmp/tc",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			if err := printProcesses(cmd, state); err != nil {
				return err
			}
			if err := state.Dead(); err != nil {
				return err
			}
			return printCluster(cmd, state)
		},
	}
	addDir(cmd, &dir)
	return cmd
}

func printProcesses(cmd *cobra.Command, state *cluster.State) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	rows := []string{"NAME\tPID\tSTATE\tLOG"}
	for _, p := range state.Processes {
		running := "running"
		if !p.Alive() {
			running = "dead"
		}
		rows = append(rows, fmt.Sprintf("%s\t%d\t%s\t%s", p.Name, p.PID, running, p.Log))
	}
	realNodes, err := realRows(state)
	if err != nil {
		return err
	}
	rows = append(rows, realNodes...)
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		return err
	}
	return table.Flush()
}

// realRows returns the rows of the real nodes. A powered-off node is not a failure.
func realRows(state *cluster.State) ([]string, error) {
	if state.Real == nil {
		return nil, nil
	}
	var rows []string
	for _, name := range state.Real.Names() {
		pid, err := state.Real.PID(name)
		if err != nil {
			return nil, err
		}
		status, err := state.Real.Status(name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, fmt.Sprintf("%s\t%d\t%s\t%s", name, pid, status, filepath.Join(state.Real.Logs, name)))
	}
	return rows, nil
}

func printCluster(cmd *cobra.Command, state *cluster.State) error {
	client, err := state.Client()
	if err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("getting the API server's version: %w", err)
	}
	ready, total, err := node.Count(cmd.Context(), client)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nAPI server:  %s\nkubeconfig:  %s\nKubernetes:  %s\nnodes:       %d Ready, %d NotReady, %d total\n",
		state.Server, state.Layout().AdminKubeconfig(), version.GitVersion, ready, total-ready, total)
	return err
}
