package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/topsops/gcu-operator/test/cluster/internal/assets"
	"github.com/topsops/gcu-operator/test/cluster/internal/controlplane"
	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
	"github.com/topsops/gcu-operator/test/cluster/internal/process"
	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

const (
	// attempts is how often starting is tried if another program takes a chosen port.
	attempts = 4
	// shownLogLines is how many lines of a failed component's log are shown.
	shownLogLines = 10
	// nodesTimeout is how long all nodes may take to become Ready.
	nodesTimeout = 5 * time.Minute
	// namespaceTimeout is how long the default ServiceAccount may take to appear.
	namespaceTimeout = time.Minute
	// namespacePoll is the poll interval for it.
	namespacePoll = 100 * time.Millisecond
)

// Options are the options of a new cluster.
type Options struct {
	// Dir is its directory, created if it does not exist.
	Dir string
	// Nodes are the simulated nodes. KubeletVersion is filled in.
	Nodes node.Spec
	// Real are the real nodes.
	Real realnode.Spec
	// Timing is how fast pods start and stop.
	Timing kwok.Timing
	// NodeMonitorGracePeriod is the time without a heartbeat after which a node is
	// NotReady.
	NodeMonitorGracePeriod time.Duration
	// NodeLeaseDuration is the duration of nodes' leases; 0 for one that suits the grace period.
	NodeLeaseDuration time.Duration
	// ControllerManagerQPS and ControllerManagerBurst limit each controller's requests.
	ControllerManagerQPS, ControllerManagerBurst int
}

// minGracePeriod is the shortest grace period in which a lease can be renewed.
const minGracePeriod = 4 * time.Second

// Validate returns an error that names the invalid flag of the command.
func (o Options) Validate() error {
	switch {
	case o.Dir == "":
		return ErrNoDir
	case o.Timing.PodReadyDelay < 0 || o.Timing.PodReadyJitter < 0 || o.Timing.PodDeleteDelay < 0:
		return errors.New("--pod-ready-delay, --pod-ready-jitter and --pod-delete-delay must not be negative")
	case o.NodeMonitorGracePeriod < minGracePeriod:
		return fmt.Errorf("--node-monitor-grace-period must be at least %s, not %s", minGracePeriod, o.NodeMonitorGracePeriod)
	case o.NodeLeaseDuration < 0 || o.NodeLeaseDuration%time.Second != 0:
		return fmt.Errorf("--node-lease-duration must be whole seconds, not %s", o.NodeLeaseDuration)
	case o.ControllerManagerQPS < 1 || o.ControllerManagerBurst < 1:
		return errors.New("--kube-controller-manager-qps and --kube-controller-manager-burst must be at least 1")
	}
	return errors.Join(o.Nodes.Validate(), o.Real.Validate())
}

func (o Options) leaseDuration() time.Duration {
	if o.NodeLeaseDuration > 0 {
		return o.NodeLeaseDuration
	}
	return controlplane.LeaseDuration(o.NodeMonitorGracePeriod)
}

// Up starts a cluster. If that fails or ctx ends, everything started is stopped and
// removed; the logs are kept.
func Up(ctx context.Context, a assets.Assets, o Options, out *progress.Printer) (*State, error) {
	state, err := claim(o.Dir)
	if err != nil {
		return nil, err
	}
	state.KubernetesVersion, state.Assets, state.Nodes = a.KubernetesVersion, a.Dir, o.Nodes.Count
	o.Nodes.KubeletVersion = a.KubernetesVersion
	for attempt := 1; ; attempt++ {
		err = state.bringUp(ctx, a, o, out)
		if attempt == attempts || !errors.Is(err, controlplane.ErrPortTaken) {
			break
		}
		out.Printf("%v; trying again with others", controlplane.ErrPortTaken)
		if err := state.stop(); err != nil {
			return nil, err
		}
		state.Processes, state.Real = nil, nil
	}
	if err == nil {
		state.Ready = true
		err = state.save()
	}
	if err != nil {
		return nil, state.abandon(err, out)
	}
	return state, nil
}

// abandon removes a cluster that failed to start, and returns the cause.
func (s *State) abandon(why error, out *progress.Printer) error {
	if part, ok := errors.AsType[*controlplane.PartError](why); ok {
		out.Printf("the last lines of %s:\n%s", part.Log, part.LogTail(shownLogLines))
	}
	return errors.Join(fmt.Errorf("starting the cluster: %w", why), s.Down(true))
}

// bringUp makes one attempt to start everything.
func (s *State) bringUp(ctx context.Context, a assets.Assets, o Options, out *progress.Printer) error {
	if err := s.save(); err != nil {
		return err
	}
	if err := controlplane.Prepare(s.layout); err != nil {
		return err
	}
	real, err := s.prepareReal(ctx, o.Real)
	if err != nil {
		return err
	}
	plane, err := controlplane.New(controlplane.Config{
		Layout:                 s.layout,
		Binary:                 a.Path,
		KubernetesVersion:      a.KubernetesVersion,
		NodeMonitorGracePeriod: o.NodeMonitorGracePeriod,
		NodeLeaseDuration:      o.leaseDuration(),
		ControllerManagerQPS:   o.ControllerManagerQPS,
		ControllerManagerBurst: o.ControllerManagerBurst,
		RealNodes:              real,
		Timing:                 o.Timing,
		Started:                s.started,
		Progress:               out,
	})
	if err != nil {
		return err
	}
	s.Server = plane.URL()
	if err := plane.StartAPI(ctx); err != nil {
		return err
	}
	client, err := s.Client()
	if err != nil {
		return err
	}
	// The nodes are created while the controllers are still starting.
	if err := plane.StartControllers(); err != nil {
		return err
	}
	if err := s.startReal(ctx, a, o); err != nil {
		return err
	}
	created := fmt.Sprintf("%d nodes are created", o.Nodes.Count)
	if err := out.Step(created, func() error { return node.Create(ctx, client, o.Nodes) }); err != nil {
		return errors.Join(err, plane.Dead())
	}
	if err := plane.WaitControllers(ctx); err != nil {
		return err
	}
	if err := waitUsable(ctx, client, plane, append(o.Nodes.Names(), o.Real.Names()...), out); err != nil {
		return err
	}
	return s.labelReal(ctx, client, o.Nodes.Zones)
}

// started records a process as soon as it runs.
func (s *State) started(r process.Record) error {
	s.Processes = append(s.Processes, r)
	return s.save()
}

// waitUsable waits until pods can be created and every node accepts them.
func waitUsable(ctx context.Context, client kubernetes.Interface, plane *controlplane.ControlPlane, nodes []string, out *progress.Printer) error {
	err := out.Step("namespaces default and kube-system are usable", func() error {
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if err := waitServiceAccount(ctx, client, namespace, plane.Dead); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, nodesTimeout, fmt.Errorf("timed out after %s", nodesTimeout))
	defer cancel()
	return out.Step(fmt.Sprintf("%d nodes are Ready", len(nodes)), func() error {
		return node.Wait(ctx, client, nodes, true, plane.Dead, func(string) {})
	})
}

// waitServiceAccount waits for a namespace's default ServiceAccount, without which
// pods are rejected.
func waitServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string, dead func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, namespaceTimeout, fmt.Errorf("timed out after %s", namespaceTimeout))
	defer cancel()
	for {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if died := dead(); died != nil {
			return died
		}
		if !apierrors.IsNotFound(err) && ctx.Err() == nil {
			return fmt.Errorf("reading the default ServiceAccount of %s: %w", namespace, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the default ServiceAccount of %s: %w", namespace, context.Cause(ctx))
		case <-time.After(namespacePoll):
		}
	}
}
