package daemonset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestMinReadySecondsCountFromWhenAPodIsSeenReady(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute, time.Hour} {
		seen := &StateTimes{}
		pod := podWith(podReady(corev1.ConditionTrue, -skew))
		if ok, wait := seen.Availability(pod, 30, epoch); ok || wait != 30*time.Second {
			t.Errorf("kubelet %s ahead: available %v, wait %s when it is first seen Ready", skew, ok, wait)
		}
		if ok, wait := seen.Availability(pod, 30, epoch.Add(29*time.Second)); ok || wait != time.Second {
			t.Errorf("kubelet %s ahead: available %v, wait %s after 29 s", skew, ok, wait)
		}
		if ok, _ := seen.Availability(pod, 30, epoch.Add(30*time.Second)); !ok {
			t.Errorf("kubelet %s ahead: not available after 30 s", skew)
		}
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch.Add(40*time.Second + skew))
		if ok, _ := seen.Availability(pod, 30, epoch.Add(41*time.Second)); ok {
			t.Errorf("kubelet %s ahead: available when it became Ready again", skew)
		}
	}
}

func TestAStateLasts(t *testing.T) {
	at := epoch.Add
	type look struct{ written, now, want time.Duration }
	tests := []struct {
		name  string
		looks []look
	}{
		{"since it was seen to begin", []look{{-time.Hour, 0, -time.Hour + MaxSkew}, {time.Minute, 2 * time.Minute, 2 * time.Minute}, {time.Minute, time.Hour, 2 * time.Minute}}},
		{"since it was seen to begin, by whatever clock it is written", []look{{0, 0, 0}, {-3 * time.Hour, time.Minute, time.Minute}, {-3 * time.Hour, 10 * time.Minute, time.Minute}}},
		{"for long when it is first seen, if it is written so", []look{{-time.Hour, 0, MaxSkew - time.Hour}}},
		{"since it is seen, if it is written in the future", []look{{time.Hour, 0, 0}, {time.Hour, 30 * time.Minute, 0}}},
		{"not since later than now, when the own clock goes back", []look{{0, 0, 0}, {0, -time.Minute, -time.Minute}}},
		{"nearly as long as before when it was forgotten", []look{{0, 0, 0}, {0, 3 * time.Hour, MaxSkew}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := &StateTimes{}
			for i, l := range tt.looks {
				if got := seen.Since("x", at(l.written), at(l.now)); !got.Equal(at(l.want)) {
					t.Errorf("look %d: since %s, want %s", i, got.Sub(epoch), l.want)
				}
			}
		})
	}
}

func TestStateTimesForgetUnusedStates(t *testing.T) {
	seen := &StateTimes{}
	for i := range 100 {
		seen.Since(string(rune(i)), epoch, epoch)
	}
	seen.Since("x", epoch, epoch.Add(2*stateTimeTTL))
	if len(seen.seen) != 1 {
		t.Errorf("%d states are kept, want 1", len(seen.seen))
	}
}

func TestNilStateTimesTrustEveryClock(t *testing.T) {
	var none *StateTimes
	if since := none.Since("x", epoch, epoch.Add(-time.Hour)); !since.Equal(epoch) {
		t.Errorf("since %s, want as written", since)
	}
}

func TestWhatIsMissingAgainIsMissingSinceThen(t *testing.T) {
	var s StateTimes
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	for _, step := range []struct {
		second  int
		missing bool
		since   time.Time
	}{{0, true, at(0)}, {20, true, at(0)}, {30, false, time.Time{}}, {40, true, at(40)}, {50, true, at(40)}} {
		if since := s.MissingSince("pod", step.missing, at(step.second)); !since.Equal(step.since) {
			t.Errorf("at %d s: missing since %s, want %s", step.second, since, step.since)
		}
	}
	if since := (*StateTimes)(nil).MissingSince("pod", true, at(0)); !since.IsZero() {
		t.Errorf("missing since %s, want it unknown", since)
	}
}

// A pod that was seen before it was Ready is Ready since then, though the clock of its kubelet, or that of the API server, is
// hours from that of the reader.
func TestAPodThatBecomesReadyIsNewByWhateverClock(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		var seen StateTimes
		pod := &corev1.Pod{}
		pod.UID, pod.CreationTimestamp = "pod", metav1.NewTime(epoch.Add(skew))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		seen.Availability(pod, 30, epoch)
		seen.AvailableSince(pod, 30, epoch)
		pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(20*time.Second + skew))}
		for _, after := range []time.Duration{20 * time.Second, 40 * time.Second} {
			if ok, wait := seen.Availability(pod, 30, epoch.Add(after)); ok || wait != 50*time.Second-after {
				t.Errorf("%s off: available %v, wait %s after %s", skew, ok, wait, after)
			}
			if since, _ := seen.AvailableSince(pod, 30, epoch.Add(after)); !since.Equal(epoch.Add(50 * time.Second)) {
				t.Errorf("%s off: available since %s after %s", skew, since, after)
			}
		}
		if since, _ := seen.AvailableSince(pod, 30, epoch.Add(20*time.Second+stateTimeTTL)); skew < 0 && !since.IsZero() {
			t.Errorf("%s off: still new after an hour", skew)
		}
	}
}

func TestAPodThatRestartedIsReadyAgainByWhateverClock(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		var seen StateTimes
		pod := &corev1.Pod{}
		pod.UID, pod.CreationTimestamp = "pod", metav1.NewTime(epoch)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(skew))}}
		for restart := range 3 {
			at := epoch.Add(time.Duration(restart) * time.Minute)
			pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at.Add(skew))}
			if again := seen.ReadySince(pod, at); !again.IsZero() {
				t.Errorf("%s off: Ready again since %s though it is not Ready", skew, again)
			}
			at = at.Add(20 * time.Second)
			pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Add(skew))}
			seen.ReadySince(pod, at)
			if again := seen.ReadySince(pod, at.Add(5*time.Second)); !again.Equal(at) {
				t.Errorf("%s off: Ready again since %s, want %s", skew, again, at)
			}
		}
	}
	var seen StateTimes
	old := &corev1.Pod{}
	old.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} // a sidecar
	old.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(-stateTimeTTL))}}
	if again := seen.ReadySince(old, epoch); !again.Equal(epoch.Add(-stateTimeTTL)) || len(seen.seen) > 0 {
		t.Errorf("Ready again since %s, and %d states are remembered; want when that is written, and none", again, len(seen.seen))
	}
}

// The node controller writes when a node went, and its kubelet when it returned, by a clock that is behind by as long as that took
// (gate 14727).
func TestANodeIsReadySinceItReturnedThoughItsClockWritesWhenItWent(t *testing.T) {
	var seen StateTimes
	node := &corev1.Node{}
	node.UID = "node"
	for i, status := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue, corev1.ConditionFalse} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(epoch)}}
		now := epoch.Add(time.Duration(i) * time.Minute)
		if ready, since, _ := seen.NodeReady(node, now); ready != (status == corev1.ConditionTrue) || !since.Equal(now) {
			t.Errorf("%s: ready %v since %s, want %s", status, ready, since, now)
		}
	}
}

// The time is kept, and compared with later ones.
func TestWhatLastedWhenItWasFirstSeenDoesNotJumpWithTheClock(t *testing.T) {
	var seen StateTimes
	now := time.Now()
	if since := seen.Since("x", now.Add(-time.Hour).Round(0), now); !strings.Contains(since.String(), "m=") {
		t.Errorf("since %s, without a reading of the monotonic clock", since)
	}
}

// A reader whose clock is ahead of that of the API server did not see the pod before. Nothing about it is older than by that clock.
func TestAReaderThatIsAheadDoesNotTakeWhatItDidNotSeeBeginForOld(t *testing.T) {
	const minReady = 30
	for name, tt := range map[string]struct {
		ahead time.Duration
		age   time.Duration // since the pod became Ready, a minute after its creation
		since time.Duration // the time since which it is Ready at the latest: it started within usualStart and MaxSkew
	}{
		"just Ready, right clock":             {0, 5 * time.Second, 0},
		"just Ready, ahead":                   {3 * time.Hour, 5 * time.Second, 0},
		"just Ready, behind":                  {-3 * time.Hour, 5 * time.Second, 0},
		"Ready for half an hour, right clock": {0, 30 * time.Minute, 21*time.Minute - MaxSkew},
		"Ready for half an hour, ahead":       {3 * time.Hour, 30 * time.Minute, 21*time.Minute - MaxSkew},
		"Ready for half an hour, behind":      {-3 * time.Hour, 30 * time.Minute, 0}, // the API server may be the one that is off
	} {
		t.Run(name, func(t *testing.T) {
			seen := StateTimes{Ahead: func(time.Time) time.Duration { return tt.ahead }}
			ready := epoch.Add(-tt.ahead - tt.age)
			pod := podWith(podReady(corev1.ConditionTrue, 0))
			pod.CreationTimestamp = metav1.NewTime(ready.Add(-time.Minute))
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ready)
			if ok, _ := seen.Availability(pod, minReady, epoch); ok != (tt.since > 0) {
				t.Errorf("available: %t", ok)
			}
			if since, _ := seen.AvailableSince(pod, minReady, epoch); !since.Equal(epoch.Add(minReady*time.Second - tt.since)) {
				t.Errorf("available since %s", since.Sub(epoch))
			}
		})
	}
}

// What a manager that starts did not see begin may have begun when it is written to have: a failure from before a resume is none.
func TestWhatWasNotSeenToBeginMayHaveBegunEarlier(t *testing.T) {
	seen, at := &StateTimes{}, func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	node, pod := &corev1.Node{}, podWith(podReady(corev1.ConditionFalse, 0))
	node.UID, pod.UID, pod.CreationTimestamp = "node", "pod", metav1.NewTime(at(-50))
	sees := func(status corev1.ConditionStatus, written, now int, want time.Time) {
		t.Helper()
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(at(written))}}
		pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at(written))}
		if _, _, earliest := seen.NodeReady(node, at(now)); !earliest.Equal(want) && status == corev1.ConditionFalse {
			t.Errorf("a node that was seen at minute %d went offline at %s at the earliest, want %s", now, earliest, want)
		}
		if _, earliest := seen.NotReadySince(pod, at(now)); !earliest.Equal(want) {
			t.Errorf("a pod that was seen at minute %d stopped working at %s at the earliest, want %s", now, earliest, want)
		}
	}
	sees(corev1.ConditionFalse, -30, 0, at(-30))
	sees(corev1.ConditionTrue, 1, 1, time.Time{})
	sees(corev1.ConditionFalse, -20, 2, at(2))
	seen = &StateTimes{}
	sees(corev1.ConditionFalse, 5, 3, at(3))
	seen = &StateTimes{}
	sees(corev1.ConditionTrue, 1, 4, time.Time{})
	sees(corev1.ConditionFalse, -20, 5, at(5))
}

// The clock of the API server, which writes when a pod was deleted, may be hours from that of the reader.
func TestAGracePeriodEndsByTheClockOfTheReader(t *testing.T) {
	const grace = 30 * time.Second
	deleted := func(at time.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", DeletionTimestamp: ptr.To(metav1.NewTime(at.Add(grace))), DeletionGracePeriodSeconds: ptr.To(int64(grace.Seconds()))}}
	}
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		knows, sees := &StateTimes{Ahead: func(time.Time) time.Duration { return ahead }}, &StateTimes{}
		if end := sees.GraceEnd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}, epoch); !end.IsZero() {
			t.Errorf("%s ahead: that of a pod that is not deleted ends at %s", ahead, end)
		}
		for _, after := range []time.Duration{0, time.Minute, 10 * time.Minute} {
			for reader, seen := range map[string]*StateTimes{"one that knows it": knows, "one that saw the deletion begin": sees} {
				if end := seen.GraceEnd(deleted(epoch.Add(-ahead)), epoch.Add(after)); !end.Equal(epoch.Add(grace)) {
					t.Errorf("%s ahead, %s: it ends %s after the deletion", ahead, reader, end.Sub(epoch))
				}
			}
		}
		starts := &StateTimes{Ahead: knows.Ahead}
		want := epoch.Add(grace) // behind, it could be at any time
		if ahead >= 0 {
			want = want.Add(MaxSkew - time.Hour)
		}
		if end := starts.GraceEnd(deleted(epoch.Add(-time.Hour-ahead)), epoch); !end.Equal(want) {
			t.Errorf("%s ahead, one that starts an hour later: it ends %s after that, want %s", ahead, end.Sub(epoch), want.Sub(epoch))
		}
	}
	if end := (*StateTimes)(nil).GraceEnd(deleted(epoch.Add(time.Hour)), epoch); !end.Equal(epoch.Add(time.Hour + grace)) {
		t.Errorf("without a memory it ends at %s, want as written", end)
	}
}

// What a gated pod is seen in is never forgotten while it is seen, however old it is.
func TestAPodIsNotReadyFromWhenItIsReleasedFromTheGate(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", CreationTimestamp: metav1.NewTime(epoch)}}
	var seen StateTimes
	gate := []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}
	released := time.Hour + 2*time.Second
	for _, at := range []time.Duration{time.Second, time.Hour - time.Second, released} {
		if pod.Spec.SchedulingGates = gate; at == released {
			pod.Spec.SchedulingGates = nil
		}
		want := time.Time{}
		if at == released {
			want = epoch.Add(at)
		}
		if since, earliest := seen.NotReadySince(pod, epoch.Add(at)); !since.Equal(want) || !earliest.Equal(want) {
			t.Errorf("after %s not Ready since %s or %s, want %s", at, since, earliest, want)
		}
	}
}
