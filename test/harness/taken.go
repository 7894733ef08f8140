package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hooks are programs, each with its first arguments separated by spaces, that do on a
// taken cluster what Kubernetes cannot. Without its hook an operation fails; only images
// need not be loaded where the cluster can pull them.
type Hooks struct {
	// Load is called with image archives, and loads them into all nodes.
	Load string
	// Disconnect and Reconnect are called with a node's name, and cut or restore its link
	// to the control plane.
	Disconnect, Reconnect string
	// OnNode is called with a node's name and a program with its arguments, and runs it
	// there as root; its standard input is the program's.
	OnNode string
}

// TakeCluster returns a cluster that runs already. Kubectl is a program.
func TakeCluster(project Project, kubeconfig, kubectl string, hooks Hooks) (*Cluster, error) {
	c := &Cluster{Project: project, Kubeconfig: kubeconfig, kubectl: kubectl, hooks: &hooks}
	return c, c.connect()
}

// run runs a hook with more arguments.
func (*Hooks) run(ctx context.Context, hook string, input io.Reader, output io.Writer, args ...string) error {
	argv := append(strings.Fields(hook), args...)
	if hook == "" {
		return fmt.Errorf("this cluster has no hook for %q: test/kind/README.md names them", strings.Join(args, " "))
	}
	command := interruptible(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = input, output, &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// switchNodes calls a hook for each node, and waits until Kubernetes gives all of them a
// status of condition Ready.
func (c *Cluster) switchNodes(ctx context.Context, hook string, want corev1.ConditionStatus, names []string) (string, error) {
	for _, name := range names {
		if err := c.hooks.run(ctx, hook, nil, io.Discard, name); err != nil {
			return "", err
		}
	}
	for _, name := range names {
		if err := Eventually(ctx, func() error { return c.hasReady(ctx, name, want) }); err != nil {
			return "", err
		}
	}
	return strings.Join(names, "\n"), nil
}

func (c *Cluster) hasReady(ctx context.Context, name string, want corev1.ConditionStatus) error {
	var node corev1.Node
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != want {
			return fmt.Errorf("node %s is Ready=%s, not %s", name, condition.Status, want)
		}
	}
	return nil
}
