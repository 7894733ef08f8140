package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

// defaultNodeTimeout is enough to notice a lost node at a common grace period.
const defaultNodeTimeout = 2 * time.Minute

// nodeAction is what one of the commands does to nodes.
type nodeAction struct {
	verb, short, long string
	// online is how the nodes are to be afterwards: Ready, or NotReady.
	online bool
	// simulated does it to simulated nodes; nil when only real ones can do it.
	simulated func(ctx context.Context, client kubernetes.Interface, names []string, online bool) error
	// real does it to a real node.
	real func(n *realnode.Nodes, ctx context.Context, name string) error
}

var (
	nodeOff = nodeAction{
		verb: "off", short: "Lose nodes: they become NotReady, deletions of their pods hang",
		long: `Cut nodes off: their leases are renewed no longer, the cluster finds them NotReady
after the grace period, and a pod that is deleted there hangs in Terminating. On a
real node, whose cable is pulled, everything runs on. Returns when the nodes are
NotReady.`,
		simulated: node.SetOnline,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error {
			return n.SetLink(ctx, name, false)
		},
	}
	nodeOn = nodeAction{
		verb: "on", short: "Bring lost nodes back: they and their pods become Ready",
		long: `Bring back nodes that were cut off: their leases are renewed again, deletions of
their pods that were hanging complete, and the other pods become Ready again.
Returns when the nodes are Ready.`,
		online:    true,
		simulated: node.SetOnline,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error {
			return n.SetLink(ctx, name, true)
		},
	}
	nodeKill = nodeAction{
		verb: "kill", short: "Take the power of real nodes away: everything on them ends at once",
		long: `Take the power of real nodes away: the kubelet, the container runtimes and all
containers are killed at once; what was written stays on the node's disk. Returns
when the nodes are NotReady.`,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error { return n.Kill(ctx, name) },
	}
	nodeStart = nodeAction{
		verb: "start", short: "Boot real nodes that have no power",
		long: `Boot real nodes that have no power, with the disks they had. Returns when the nodes
are Ready.`,
		online: true,
		real:   func(n *realnode.Nodes, ctx context.Context, name string) error { return n.Start(ctx, name) },
	}
)

// nodeFlags are the flags of a nodeAction.
type nodeFlags struct {
	nodeAction
	dir     string
	wait    bool
	timeout time.Duration
}

func (r *root) nodeCommand(action nodeAction) *cobra.Command {
	f := nodeFlags{nodeAction: action}
	example := "node-0003 node-0007"
	if action.simulated == nil {
		example = "real-2"
	}
	cmd := &cobra.Command{
		Use:     "node-" + action.verb + " --dir DIR NAME...",
		Short:   action.short,
		Long:    action.long,
		Example: "  testcluster node-" + action.verb + " --dir /tmp/tc " + example,
		Args:    cobra.MinimumNArgs(1),
		RunE:    f.run,
	}
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
	if err := f.act(cmd.Context(), state, client, names); err != nil {
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

// act changes the nodes, or none of them when a name is wrong.
func (f *nodeFlags) act(ctx context.Context, state *cluster.State, client kubernetes.Interface, names []string) error {
	if err := node.CheckNames(ctx, client, names); err != nil {
		return err
	}
	var simulated []string
	for _, name := range names {
		if !state.IsReal(name) {
			simulated = append(simulated, name)
		}
	}
	if len(simulated) > 0 {
		if f.simulated == nil {
			return fmt.Errorf("node-%s is for real nodes, these are simulated: %s (nothing was changed)", f.verb, strings.Join(simulated, ", "))
		}
		if err := f.simulated(ctx, client, simulated, f.online); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !state.IsReal(name) {
			continue
		}
		if err := f.real(state.Real, ctx, name); err != nil {
			return err
		}
	}
	return nil
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
