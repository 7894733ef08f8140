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
// unready has, by node, the members whose pods seem not to be Ready; if there are none, the node has to be out of service.
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
			if out, err := c.isOutOfService(ctx, nodes[i]); err != nil || out {
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

// isOutOfService reports whether a node, read live, is gone or offline, or whether an operation may have taken it out of service.
func (c Cluster) isOutOfService(ctx context.Context, name string) (bool, error) {
	var node corev1.Node
	switch err := c.Live.Get(ctx, client.ObjectKey{Name: name}, &node); {
	case denial.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading node %s again: %w", name, err)
	}
	var upgrade topsv1.NodeUpgrade
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, &upgrade); denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the operation of node %s again: %w", name, err)
	}
	ready, _ := daemonset.NodeReady(&node)
	return !ready || observed.IsDisturbed(&upgrade), nil
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
