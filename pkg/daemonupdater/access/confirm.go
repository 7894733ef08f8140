package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// Available returns, of the nodes that have their turn early because they seem to be unavailable, those that are not, read live:
// they have to wait for their turn, because a manager with an earlier ledger may start the nodes before them (docs/adr/0001).
// unready has, by node, the members whose pods seem not to be Ready; if there are none, an operation has to have the node out of service.
func (c Cluster) Available(ctx context.Context, members []observed.Member, unready map[string][]int) (map[string]bool, error) {
	nodes := slices.Collect(maps.Keys(unready))
	var mu sync.Mutex
	available := map[string]bool{}
	err := InParallel(ctx, len(nodes), func(i int) error {
		for _, member := range unready[nodes[i]] {
			if ready, err := c.hasReadyPod(ctx, members[member], nodes[i]); err != nil || !ready {
				return err
			}
		}
		if len(unready[nodes[i]]) == 0 {
			if disturbed, err := c.isDisturbed(ctx, nodes[i]); err != nil || disturbed {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		available[nodes[i]] = true
		return nil
	})
	return available, err
}

// hasReadyPod reports whether a member has a Ready pod on a node, read live.
func (c Cluster) hasReadyPod(ctx context.Context, m observed.Member, node string) (bool, error) {
	pods, err := c.LivePods(ctx, m, client.MatchingFields{"spec.nodeName": node})
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return metav1.IsControlledBy(&pod, m.DaemonSet) && pod.DeletionTimestamp == nil && daemonset.IsReady(&pod)
	}), err
}

// isDisturbed reports whether an operation, read live, may have taken a node out of service. A node that is merely offline may be
// back before its operation is granted, so it waits for its turn.
func (c Cluster) isDisturbed(ctx context.Context, node string) (bool, error) {
	var u topsv1.NodeUpgrade
	if err := c.Live.Get(ctx, client.ObjectKey{Name: node}, &u); denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the operation of node %s again: %w", node, err)
	}
	return observed.IsDisturbed(&u), nil
}

// ConfirmVacated confirms live that the members of slots that are given back because these no longer run on their nodes have no
// pod there that stays, scheduled or not. It returns podreplace.ErrChanged for one that has.
func (c Cluster) ConfirmVacated(ctx context.Context, members []observed.Member, slots []rollout.Slot) error {
	for _, m := range members {
		left := map[string]*corev1.Node{}
		for i := range slots {
			if !slices.Contains(slots[i].Members, m.Key()) {
				continue
			}
			var node corev1.Node
			switch err := c.Live.Get(ctx, client.ObjectKey{Name: slots[i].Node}, &node); {
			case err == nil:
				left[node.Name] = &node
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("looking for node %s: %w", slots[i].Node, err)
			}
		}
		if len(left) == 0 {
			continue
		}
		pods, err := c.LivePods(ctx, m)
		if err == nil {
			err = ConfirmNoPods(m, left, pods)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ConfirmNoPods confirms, from the live pods of a member, that nodes that it left run no pod of it that stays there: the successor
// of a pod may have been created just before, and not be in the cache yet.
func ConfirmNoPods(m observed.Member, left map[string]*corev1.Node, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		if node := left[daemonset.NodeName(pod)]; node != nil && metav1.IsControlledBy(pod, m.DaemonSet) && daemonset.ShouldRun(m.DaemonSet, node).Keep {
			return fmt.Errorf("pod %s of DaemonSet %s: %w", pod.Name, m.Key(), podreplace.ErrChanged)
		}
	}
	return nil
}
