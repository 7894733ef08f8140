package observed

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestNodesAndPodsCountFromWhenTheyAreSeen(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		ds := fixture.DaemonSet("driver")
		ds.Spec.MinReadySeconds = 30
		node, pod, at := fixture.Node("a"), fixture.PodOn(ds, "a", fixture.NewHash), metav1.NewTime(fixture.Epoch.Add(skew))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}
		s := &State{Members: []Member{{DaemonSet: ds}}, StateTimes: &daemonset.StateTimes{}, Group: GroupOf(ds), Rollout: &topsv1.DaemonRollout{}}
		SetNode(s, "a", node, nil, []*corev1.Pod{pod})
		n := s.RolloutNode("a", "r", Zones{}, fixture.Epoch)
		if p := n.Pods[0]; p.Available || !p.AvailableAt.Equal(fixture.Epoch.Add(30*time.Second)) || !n.ReadySince.Equal(fixture.Epoch) || !n.ReadyWritten.Equal(at.Time) {
			t.Errorf("skew %s: node %+v, want it Ready since now, and its pod available in 30 s", skew, n)
		}
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		if n = s.RolloutNode("a", "r", Zones{}, fixture.Epoch); !n.Pods[0].NotReadySince.Equal(fixture.Epoch) {
			t.Errorf("skew %s: not Ready since %s, want now", skew, n.Pods[0].NotReadySince)
		}
	}
}

// TestAMissingPodIsMissingSinceItIsSeenToBe: else it would always have been, and its node jump its wave.
func TestAMissingPodIsMissingSinceItIsSeenToBe(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	s := &State{Members: []Member{{DaemonSet: ds}}, StateTimes: &daemonset.StateTimes{}, Group: GroupOf(ds), Rollout: &topsv1.DaemonRollout{}}
	for _, later := range []time.Duration{0, time.Minute} {
		SetNode(s, "a", fixture.Node("a"), nil)
		n := s.RolloutNode("a", "r", Zones{}, fixture.Epoch.Add(later))
		if since := n.Pods[0].NotReadySince; !since.Equal(fixture.Epoch) {
			t.Errorf("%s later: missing since %s, want since it was first seen to be", later, since)
		}
	}
}

// TestAPodThatRunsNothingIsMissingSinceAnotherOneWent: one that has left is kept by a finalizer, one that waits at the gate may
// be older than what was restored beside it; neither says anything of other pods.
func TestAPodThatRunsNothingIsMissingSinceAnotherOneWent(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	at := fixture.Ago(time.Hour)
	left := fixture.PodOn(ds, "a", fixture.OldHash)
	left.DeletionTimestamp, left.Status.Phase = &at, corev1.PodFailed
	gated := fixture.PodOn(ds, "a", fixture.OldHash)
	gated.CreationTimestamp, gated.Spec.NodeName, gated.Status = at, "", corev1.PodStatus{}
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}
	for name, idle := range map[string]*corev1.Pod{"it has left": left, "it waits at the gate": gated} {
		t.Run(name, func(t *testing.T) {
			another := fixture.PodOn(ds, "a", fixture.NewHash)
			o := worldOf([]memberAndPods{memberWith(ds)})
			o.StateTimes = &daemonset.StateTimes{}
			since := func(now time.Time, pods ...*corev1.Pod) time.Time {
				SetNode(o.State, "a", fixture.Node("a"), nil, pods)
				n := o.RolloutNode("a", "r", Zones{}, now)
				return n.Pods[0].NotReadySince
			}
			if got := since(fixture.Epoch, idle, another); !got.IsZero() {
				t.Errorf("not Ready since %s, though another one is", got)
			}
			if got := since(fixture.Epoch.Add(time.Minute), idle); !got.Equal(fixture.Epoch.Add(time.Minute)) {
				t.Errorf("not Ready since %s, want now", got)
			}
		})
	}
}
