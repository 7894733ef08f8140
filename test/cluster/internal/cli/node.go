package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
)

// defaultNodeTimeout is enough to notice a lost node at a common grace period.
const defaultNodeTimeout = 2 * time.Minute

// nodeFlags are the flags of node-off and node-on.
type nodeFlags struct {
	dir     string
	wait    bool
	timeout time.Duration
	online  bool
}

func (r *root) nodeCommand(online bool) *cobra.Command {
	f := nodeFlags{online: online}
	cmd := &cobra.Command{
		Use:   "node-off --dir DIR NAME...",
		Short: "Lose nodes: they become NotReady, deletions of their pods hang",
		Long: `Lose nodes as if they were cut off: their leases are renewed no longer, the
cluster finds them NotReady after the grace period, and a pod that is deleted
there hangs in Terminating. Returns when the nodes are NotReady.`,
		Example: "  testcluster node-off --dir /tmp/tc node-0003 node-0007",
	}
	if online {
		cmd.Use = "node-on --dir DIR NAME..."
		cmd.Short = "Bring lost nodes back: they and their pods become Ready"
		cmd.Long = `Bring lost nodes back: their leases are renewed again, deletions of their pods
that were hanging complete, and the other pods become Ready again. Returns when
the nodes are Ready.`
		cmd.Example = "  testcluster node-on --dir /tmp/tc node-0003 node-0007"
	}
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = f.run
	addDir(cmd, &f.dir)
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until the cluster has noticed")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultNodeTimeout, "how long to wait")
	return cmd
}

func (f *nodeFlags) run(cmd *cobra.Command, names []string) error {
	state, err := loadRunning(f.dir)
	if err != nil {
		return err
	}
	client, err := state.Client()
	if err != nil {
		return err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	start := time.Now()
	if err := node.SetOnline(cmd.Context(), client, names, f.online); err != nil {
		return err
	}
	if !f.wait {
		return nil
	}
	reached := "is NotReady"
	if f.online {
		reached = "is Ready"
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), f.timeout, fmt.Errorf("not so after %s", f.timeout))
	defer cancel()
	return node.Wait(ctx, client, names, f.online, state.Dead, func(name string) {
		// A line that cannot be written does not change what happened.
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", name, reached, time.Since(start).Round(100*time.Millisecond))
	})
}

// load returns the cluster in dir.
func load(dir string) (*cluster.State, error) {
	if dir == "" {
		return nil, cluster.ErrNoDir
	}
	return cluster.Load(dir)
}

// loadRunning returns the cluster in dir when all of it runs.
func loadRunning(dir string) (*cluster.State, error) {
	state, err := load(dir)
	if err != nil {
		return nil, err
	}
	return state, state.Dead()
}
