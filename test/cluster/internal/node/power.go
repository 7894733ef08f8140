package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
)

// SetOnline takes simulated nodes online or offline, with the label by which kwok
// selects its nodes.
func SetOnline(ctx context.Context, client kubernetes.Interface, names []string, online bool) error {
	// null removes the label.
	labels := map[string]any{kwok.OnlineLabel: nil}
	if online {
		labels[kwok.OnlineLabel] = kwok.OnlineValue
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for _, name := range names {
		group.Go(func() error { return Label(ctx, client, name, labels) })
	}
	return group.Wait()
}

// Label sets labels of a node; a nil value removes the label.
func Label[V any](ctx context.Context, client kubernetes.Interface, name string, labels map[string]V) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return fmt.Errorf("encoding the label patch of node %s: %w", name, err)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing labels of node %s: %w", name, err)
	}
	return nil
}

// CheckNames returns an error if a name is not a node of the cluster.
func CheckNames(ctx context.Context, client kubernetes.Interface, names []string) error {
	nodes, err := list(ctx, client)
	if err != nil {
		return err
	}
	unknown := unknownNames(names, nodes)
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("no such node: %s (the cluster has %s; nothing was changed)",
		strings.Join(unknown, ", "), describe(nodes))
}

func unknownNames(names []string, nodes []corev1.Node) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	})
}

// describe returns the range of nodes: "node-0001 to node-0020".
func describe(nodes []corev1.Node) string {
	if len(nodes) == 0 {
		return "no nodes"
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return slices.Min(names) + " to " + slices.Max(names)
}

func list(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	// From the API server's cache: with a thousand nodes this is called often.
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return nodes.Items, nil
}
