package observed

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
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

// A pod of two hours is Ready by turns, with which the memory of another process has begun: a failure that is blamed on it does not
// end in such a moment, whatever the clock of its kubelet.
func TestAPodThatFlapsHasNotWorkedSinceBeforeTheManagerBegan(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		failed, left := fixture.DaemonSet("driver"), fixture.DaemonSet("exporter")
		old, outdated := fixture.PodOn(failed, "a", fixture.NewHash), fixture.PodOn(left, "a", fixture.OldHash)
		old.CreationTimestamp = fixture.Ago(2 * time.Hour)
		o := worldOf([]memberAndPods{memberWith(failed), memberWith(left)})
		o.StateTimes = &daemonset.StateTimes{}
		in := inputFrom(o)
		in.Settings = daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(1)}
		in.Ledger.Failures = []rollout.Failure{{Node: "a", UID: "uid-a", Reason: rollout.ReasonProgressDeadlineExceeded, Since: fixture.Epoch.Add(-time.Hour),
			Targets: []rollout.Target{{Member: o.Members[0].Key(), Revision: fixture.NewHash}}}}
		failedAt := func(after time.Duration, status corev1.ConditionStatus, since time.Duration) int {
			old.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(fixture.Epoch.Add(since + skew))}}
			SetNode(o.State, "a", fixture.Node("a"), nil, []*corev1.Pod{old}, []*corev1.Pod{outdated})
			now := in
			now.Now = fixture.Epoch.Add(after)
			now.Nodes = []rollout.Node{o.RolloutNode("a", in.Revision, Zones{}, now.Now)}
			d := rollout.Plan(now)
			return d.Counts.Failed
		}
		for _, step := range []struct {
			after  time.Duration
			status corev1.ConditionStatus
			since  time.Duration
			failed int
		}{
			{0, corev1.ConditionTrue, -5 * time.Second, 1},
			{20 * time.Second, corev1.ConditionFalse, 20 * time.Second, 1},
			{40 * time.Second, corev1.ConditionTrue, 40 * time.Second, 1},
			{69 * time.Second, corev1.ConditionTrue, 40 * time.Second, 1},
			{70 * time.Second, corev1.ConditionTrue, 40 * time.Second, 0},
			{3 * time.Hour, corev1.ConditionFalse, 3 * time.Hour, 1},
			{4 * time.Hour, corev1.ConditionTrue, 4 * time.Hour, 1},
		} {
			if got := failedAt(step.after, step.status, step.since); got != step.failed {
				t.Errorf("skew %s, after %s: %d nodes have failed, want %d", skew, step.after, got, step.failed)
			}
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

// TestAPodIsMissingOnlyWhileItsNodeIsToHaveIt: else a node that was kept free of it for a while would jump its wave when it gets one.
func TestAPodIsMissingOnlyWhileItsNodeIsToHaveIt(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		s := &State{Members: []Member{{DaemonSet: ds}}, StateTimes: &daemonset.StateTimes{}, Group: GroupOf(ds), Rollout: &topsv1.DaemonRollout{}}
		for minute, taints := range [][]corev1.Taint{nil, {{Key: "team", Effect: effect}}, nil, nil} {
			node := fixture.Node("a")
			node.Spec.Taints = taints
			SetNode(s, "a", node, nil)
			n := s.RolloutNode("a", "r", Zones{}, fixture.Epoch.Add(time.Duration(minute)*time.Minute))
			if minute < 2 {
				continue
			}
			if since := n.Pods[0].NotReadySince.Sub(fixture.Epoch); since != 2*time.Minute {
				t.Errorf("%s, after %d minutes: missing since %s, want since the taint was gone", effect, minute, since)
			}
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

// The manager before, whose clock was ahead, knew a request of a node whose clock is ahead: a new one is capped at now, and would be
// older than that.
func TestARequestIsNotOlderThanAFailureByAClockThatWasAhead(t *testing.T) {
	for ahead, forgotten := range map[time.Duration]bool{3 * time.Hour: true, 30 * time.Second: false, -time.Hour: false} {
		at := metav1.NewTime(fixture.Epoch.Add(ahead))
		w := worldOf([]memberAndPods{memberWith(fixture.DaemonSet("driver"))})
		w.Rollout.Status.Failed = []topsv1.NodeNote{{Node: "a", RequestedTime: &at}}
		w.Rollout.Status.Pinned = []topsv1.NodePin{{Node: "b", RequestedTime: &at}}
		want := at.Time
		if forgotten {
			want = time.Time{}
		}
		ledger := inputFrom(w).Ledger
		if failed, pinned := ledger.Failures[0].Requested, ledger.Pins[0].Requested; !failed.Equal(want) || !pinned.Equal(want) {
			t.Errorf("%s ahead: failed after the request of %s, pinned after that of %s, want %s", ahead, failed, pinned, want)
		}
	}
}
