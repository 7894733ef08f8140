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

// SetOnline brings nodes back (online) or loses them, by the label that kwok
// selects its nodes on. When one of the names is no node of the
// cluster, nothing is changed.
func SetOnline(ctx context.Context, client kubernetes.Interface, names []string, online bool) error {
	if err := checkNames(ctx, client, names); err != nil {
		return err
	}
	patch, err := onlinePatch(online)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for _, name := range names {
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("changing the label %s of node %s: %w", kwok.OnlineLabel, name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func onlinePatch(online bool) ([]byte, error) {
	// A null takes the label away.
	var value any
	if online {
		value = kwok.OnlineValue
	}
	labels := map[string]any{kwok.OnlineLabel: value}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return nil, fmt.Errorf("making the patch of label %s: %w", kwok.OnlineLabel, err)
	}
	return patch, nil
}

func checkNames(ctx context.Context, client kubernetes.Interface, names []string) error {
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

// describe says which nodes there are: "node-0001 to node-0020".
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
	// From the API server's cache: with a thousand nodes it is asked often.
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return nodes.Items, nil
}
