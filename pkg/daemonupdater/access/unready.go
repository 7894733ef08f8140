package access

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// ConfirmUnready confirms live that the nodes that are replaced before their turn are not available. It returns
// podreplace.ErrChanged for one that is: a manager with an earlier ledger may start the nodes before it (docs/adr/0001).
func (c Cluster) ConfirmUnready(ctx context.Context, members []observed.Member, deletions []rollout.Deletion, changes []rollout.OperationChange) error {
	type early struct {
		node    string
		unready []int
	}
	var nodes []early
	for i := range deletions {
		nodes = append(nodes, early{deletions[i].Node, deletions[i].Unready})
	}
	for i := range changes {
		nodes = append(nodes, early{changes[i].Node, changes[i].Unready})
	}
	nodes = slices.DeleteFunc(nodes, func(n early) bool { return len(n.unready) == 0 })
	return InParallel(ctx, len(nodes), func(i int) error {
		for _, member := range nodes[i].unready {
			if ready, err := c.hasReadyPod(ctx, members[member], nodes[i].node); err != nil || !ready {
				return err
			}
		}
		return fmt.Errorf("the pods of node %s are Ready: %w", nodes[i].node, podreplace.ErrChanged)
	})
}

// hasReadyPod reports whether a member has a Ready pod on a node, read live.
func (c Cluster) hasReadyPod(ctx context.Context, m observed.Member, node string) (bool, error) {
	pods, err := c.LivePods(ctx, m, client.MatchingFields{"spec.nodeName": node})
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return metav1.IsControlledBy(&pod, m.DaemonSet) && pod.DeletionTimestamp == nil && daemonset.IsReady(&pod)
	}), err
}
