package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

// defaultOptions returns options for interactive use: pods take a moment to start, and an
// offline node is detected in seconds instead of Kubernetes' 50.
func defaultOptions() cluster.Options {
	return cluster.Options{
		Timing: kwok.Timing{
			PodReadyDelay:  time.Second,
			PodReadyJitter: 2 * time.Second,
			PodDeleteDelay: 300 * time.Millisecond,
		},
		NodeMonitorGracePeriod: 16 * time.Second,
		ControllerManagerQPS:   200,
		ControllerManagerBurst: 400,
	}
}

func (r *root) upCommand() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "up --dir DIR --nodes N",
		Short: "Bring a cluster up in a directory",
		Long: `Bring a cluster up in a directory and print the path of its administrator's
kubeconfig. The control plane is built first if it is not in the cache. The
cluster runs until "testcluster down"; several can run side by side.

With --real-nodes there are also real nodes, real-1 and so on: kubelets with their own
containerd, in namespaces of this machine. That needs root; missing packages are installed
with apt-get. Images come from "testcluster load-image" only.

A label on a pod (or a pod template) makes it behave badly:
  ` + kwok.BehaviorLabel + `: ` + kwok.BehaviorNeverReady + `   runs, but never becomes Ready
  ` + kwok.BehaviorLabel + `: ` + kwok.BehaviorCrashLoop + `    its containers crash again and again,
                                     as with an image that ends in ` + kwok.CrashingSuffix + `,
                                     or on one node only in ` + kwok.CrashingSuffix + `-on-NODE

Annotations on a pod change how long it takes to become Ready:
  ` + kwok.ReadyDelayAnnotation + `: 10s       this long
  ` + kwok.ReadyDelayMaxAnnotation + `: 15s   and, with the one above, at most this long`,
		Example: `  testcluster up --dir /tmp/tc --nodes 20
  testcluster up --dir /tmp/tc --nodes 12 --zones 3
  testcluster up --dir /tmp/tc --real-nodes 3 --docker-node real-3
  testcluster up --dir /tmp/tc --nodes 20 --pod-ready-delay 5s --pod-ready-jitter 10s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.up(cmd, o) },
	}
	flags := cmd.Flags()
	addDir(cmd, &o.Dir)
	flags.IntVar(&o.Nodes.Count, "nodes", 0, "number of simulated nodes, node-0001 and so on")
	flags.IntVar(&o.Real.Count, "real-nodes", 0, "number of real nodes, real-1 and so on")
	flags.StringVar(&o.Real.DockerNode, "docker-node", "", "the real node that also runs dockerd (default: none)")
	flags.IntVar(&o.Nodes.Zones, "zones", 0, "spread the nodes over this many zones, zone-a and so on; 0 for none")
	flags.DurationVar(&o.Timing.PodReadyDelay, "pod-ready-delay", o.Timing.PodReadyDelay, "minimum time until a pod is Ready")
	flags.DurationVar(&o.Timing.PodReadyJitter, "pod-ready-jitter", o.Timing.PodReadyJitter, "maximum random time added to --pod-ready-delay")
	flags.DurationVar(&o.Timing.PodDeleteDelay, "pod-delete-delay", o.Timing.PodDeleteDelay, "time until a deleted pod is gone")
	flags.DurationVar(&o.NodeMonitorGracePeriod, "node-monitor-grace-period", o.NodeMonitorGracePeriod, "time without a heartbeat after which a node is NotReady")
	flags.DurationVar(&o.NodeLeaseDuration, "node-lease-duration", 0, "duration of nodes' leases, renewed after a quarter of it (default: 2.5 times the grace period, at most 40s)")
	flags.IntVar(&o.ControllerManagerQPS, "kube-controller-manager-qps", o.ControllerManagerQPS, "maximum requests per second of each controller")
	flags.IntVar(&o.ControllerManagerBurst, "kube-controller-manager-burst", o.ControllerManagerBurst, "maximum burst of requests of each controller")
	return cmd
}

func (r *root) up(cmd *cobra.Command, o cluster.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	a, err := r.locate()
	if err != nil {
		return err
	}
	out := steps(cmd)
	if o.Real.Count > 0 {
		if err := realnode.Ensure(cmd.Context(), out); err != nil {
			return err
		}
	}
	if err := a.Ensure(cmd.Context(), out); err != nil {
		return err
	}
	var state *cluster.State
	err = out.Step("the cluster is up", func() (err error) {
		state, err = cluster.Up(cmd.Context(), a, o, out)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), state.Layout().AdminKubeconfig())
	return err
}

func (r *root) downCommand() *cobra.Command {
	var dir string
	var keepLogs bool
	cmd := &cobra.Command{
		Use:   "down --dir DIR",
		Short: "Stop a cluster and remove its files",
		Long: `Stop all processes and real nodes of a cluster, wait until they have exited, and
remove the cluster's files. Other files in the directory are kept.`,
		Example: "  testcluster down --dir /tmp/tc",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			return steps(cmd).Step("the cluster is down", func() error { return state.Down(keepLogs) })
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().BoolVar(&keepLogs, "keep-logs", false, "keep the folder logs in the directory")
	return cmd
}
