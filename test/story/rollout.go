package story

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// follow prints the counts of the rollout each time they change, until reached returns
// true.
func (s *Story) follow(ctx context.Context, reached func(*topsv1.DaemonRollout) bool) error {
	ctx, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	begin, last := time.Now(), ""
	return harness.Eventually(ctx, func() error {
		rollout, err := s.rollout(ctx)
		if err != nil {
			return err
		}
		st := rollout.Status
		counts := fmt.Sprintf("%2d of %d updated, %d in flight, %2d pending, %d skipped, %d failed",
			st.Updated, st.Total, st.InFlightNodes, st.Pending, st.SkippedNodes, st.FailedNodes)
		if counts != last {
			s.narrator.progress(time.Since(begin), int(st.Updated), int(st.Total), counts)
			last = counts
		}
		if c := meta.FindStatusCondition(st.Conditions, topsv1.RolloutHalted); c != nil && c.Status == "True" {
			return harness.Final(fmt.Errorf("the rollout halted: %s", c.Message))
		}
		if !reached(rollout) {
			return fmt.Errorf("still %s", counts)
		}
		return nil
	})
}

func (s *Story) rollout(ctx context.Context) (*topsv1.DaemonRollout, error) {
	var rollout topsv1.DaemonRollout
	err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: grName}, &rollout)
	return &rollout, err
}

// driverTarget returns the hash of the newest revision of the driver, once it differs
// from before and the rollout has it too.
func (s *Story) driverTarget(ctx context.Context, before string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	var target string
	err := harness.Eventually(ctx, func() error {
		rollout, err := s.rollout(ctx)
		if err != nil {
			return err
		}
		for _, t := range rollout.Status.Targets {
			if t.DaemonSet == namespace+"/"+driverName && t.Hash != before && t.Hash != "" {
				target = t.Hash
				return nil
			}
		}
		return fmt.Errorf("the rollout has no revision of the driver newer than %q", before)
	})
	return target, err
}

// driverPods returns the driver's pod of every node.
func (s *Story) driverPods(ctx context.Context) (map[string]corev1.Pod, error) {
	return s.podsOf(ctx, driverName)
}

// podsOf returns the pod of a DaemonSet on every node.
func (s *Story) podsOf(ctx context.Context, daemonSet string) (map[string]corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.cluster.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{nameLabel: daemonSet}); err != nil {
		return nil, err
	}
	byNode := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		byNode[pod.Spec.NodeName] = pod
	}
	return byNode, nil
}

// nodesAt returns the nodes that run the driver at a revision.
func nodesAt(pods map[string]corev1.Pod, hash string) []string {
	var nodes []string
	for node, pod := range pods {
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func needUpgrade(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == topsv1.PodNeedUpgrade {
			return c.Status
		}
	}
	return ""
}
