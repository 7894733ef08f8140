package hostile

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// A slot opens the gate of its node for the DaemonSets that it names, and for no other of the group.
func TestASlotOpensTheGateForWhatItNames(t *testing.T) {
	s := cluster(t)
	since136(t, s, "the gate")
	admin, ctx := s.Client(t, apiserver.Admin), t.Context()
	const namespace = "gate-policy"
	check(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: "driver"}}}
	check(t, admin.Create(ctx, rollout))
	slot := func(node, names string) topsv1.NodeSlot {
		return topsv1.NodeSlot{Node: node, UID: types.UID(node), Since: metav1.Now(), Revision: "r", DaemonSets: []string{namespace + "/" + names}}
	}
	for _, set := range []string{"driver", "exporter"} {
		rollout.Status.Settled = append(rollout.Status.Settled, topsv1.RevisionTarget{DaemonSet: namespace + "/" + set})
		rollout.Status.Targets = append(rollout.Status.Targets, topsv1.RevisionTarget{DaemonSet: namespace + "/" + set, Hash: "new"})
	}
	rollout.Status.InFlight, rollout.Status.Queued = []topsv1.NodeSlot{slot("flies", "driver")}, []topsv1.NodeSlot{slot("queues", "exporter")}
	check(t, admin.Status().Update(ctx, rollout))
	waits := func(ctx context.Context, set, node string) bool {
		pod := ofDaemonSet(set, types.UID("uid-"+set))
		pod.Namespace, pod.Labels = namespace, map[string]string{"controller-revision-hash": "new"}
		pod.Spec.NodeName = ""
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
		check(t, admin.Create(ctx, pod, client.DryRunAll))
		return daemonset.AwaitsUpgrade(pod)
	}
	check(t, wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return waits(ctx, "driver", "other"), nil
	}))
	for _, c := range []struct {
		set, node string
		waits     bool
	}{
		{"driver", "flies", false}, {"exporter", "flies", true}, {"driver", "queues", true}, {"exporter", "queues", false}, {"exporter", "other", true},
	} {
		if got := waits(ctx, c.set, c.node); got != c.waits {
			t.Errorf("a pod of %s on node %s waits at the gate: %t, want %t", c.set, c.node, got, c.waits)
		}
	}
}
