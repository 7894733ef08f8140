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

// defaultNodeTimeout is long enough to detect an offline node with usual grace periods.
const defaultNodeTimeout = 2 * time.Minute

// nodeAction is the effect of one of the node commands.
type nodeAction struct {
	verb, short, long string
	// online is whether the nodes are Ready afterwards, or NotReady.
	online bool
	// simulated changes simulated nodes; nil if only real nodes support the command.
	simulated func(ctx context.Context, client kubernetes.Interface, names []string, online bool) error
	// real changes a real node.
	real func(n *realnode.Nodes, ctx context.Context, name string) error
}

var (
	nodeOff = nodeAction{
		verb: "off", short: "Take nodes offline: they become NotReady, and their deleted pods stay Terminating",
		long: `Take nodes offline: their leases are no longer renewed, they become NotReady after
the grace period, and pods deleted there stay Terminating. A real node loses its
network, but everything on it keeps running. Returns when the nodes are NotReady.`,
		simulated: node.SetOnline,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error {
			return n.SetLink(ctx, name, false)
		},
	}
	nodeOn = nodeAction{
		verb: "on", short: "Bring offline nodes back: they and their pods become Ready",
		long: `Bring offline nodes back: their leases are renewed again, pending deletions of
their pods complete, and the other pods become Ready again. Returns when the
nodes are Ready.`,
		online:    true,
		simulated: node.SetOnline,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error {
			return n.SetLink(ctx, name, true)
		},
	}
	nodeKill = nodeAction{
		verb: "kill", short: "Power real nodes off: all their processes are killed at once",
		long: `Power real nodes off: the kubelet, the container runtimes and all containers are
killed at once; the node's disk is kept. Returns when the nodes are NotReady.`,
		real: func(n *realnode.Nodes, ctx context.Context, name string) error { return n.Kill(ctx, name) },
	}
	nodeStart = nodeAction{
		verb: "start", short: "Boot real nodes that are powered off",
		long: `Boot real nodes that are powered off, with their old disks. Returns when the nodes
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
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until the nodes are NotReady or Ready")
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
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), f.timeout, fmt.Errorf("timed out after %s", f.timeout))
	defer cancel()
	return node.Wait(ctx, client, names, f.online, state.Dead, func(name string) {
		// A write error does not change the result.
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", name, reached, time.Since(start).Round(100*time.Millisecond))
	})
}

// act changes the nodes, or none of them if a name is invalid.
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

// loadRunning returns the cluster in dir, and fails unless all its processes run.
func loadRunning(dir string) (*cluster.State, error) {
	state, err := load(dir)
	if err != nil {
		return nil, err
	}
	return state, state.Dead()
}
