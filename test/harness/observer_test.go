package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// begin is the start time of the tests.
var begin = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// observed returns a pod of a DaemonSet on a node, Ready from the beginning or not.
func observed(node, uid string, ready, deleted bool) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: uid, UID: types.UID(uid),
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "exporter", Controller: ptr.To(true)}}}}
	if deleted {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(begin)}}
	return pod
}

// readyAt returns a pod that became Ready at this many seconds after the beginning.
func readyAt(node, uid string, seconds int) *corev1.Pod {
	pod := observed(node, uid, true, false)
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(begin.Add(time.Duration(seconds) * time.Second))
	return pod
}

func TestMostNodesDownAtOnce(t *testing.T) {
	type seen struct {
		pod  *corev1.Pod
		gone bool
	}
	for name, test := range map[string]struct {
		seen []seen
		want int
	}{
		"one after the other": {[]seen{
			{observed("a", "a1", true, true), false}, {observed("a", "a1", true, true), true}, {observed("a", "a2", true, false), false},
			{observed("b", "b1", true, true), false}, {observed("b", "b1", true, true), true}, {observed("b", "b2", true, false), false}}, 1},
		"the replacement exists before the old pod is gone": {[]seen{
			{observed("a", "a1", false, true), false}, {observed("a", "a2", true, false), false}, {observed("a", "a1", false, true), true},
			{observed("b", "b1", true, true), false}}, 1},
		"the second is deleted before the replacement of the first is Ready": {[]seen{
			{observed("a", "a1", true, true), false}, {observed("a", "a1", true, true), true}, {observed("a", "a2", false, false), false},
			{observed("b", "b1", true, true), false}}, 2},
		"only the deletions are observed": {[]seen{{observed("a", "a1", true, false), true}, {observed("b", "b1", true, false), true}}, 2},
		"a deletion is observed after the replacement": {[]seen{
			{observed("a", "a2", true, false), false}, {observed("a", "a1", true, false), true}, {observed("b", "b1", true, true), false}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewObserver(clocktesting.NewFakePassiveClock(begin))
			for _, s := range test.seen {
				o.See(s.pod, s.gone)
			}
			if most := o.Most(); most != test.want {
				t.Errorf("%d nodes were down at once, want %d", most, test.want)
			}
		})
	}
}

// After an interrupted watch only the fact of a deletion is known.
func TestADeletionDuringAnInterruptedWatchCounts(t *testing.T) {
	o, d := NewObserver(clocktesting.NewFakePassiveClock(begin)), &Departures{seen: map[types.UID]bool{}}
	handler := podHandler(func(pod *corev1.Pod, gone bool) { o.See(pod, gone); d.see(pod, gone) })
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "kube-system/a1", Obj: observed("a", "a1", true, false)})
	if o.Replaced() != 1 || o.Most() != 1 {
		t.Errorf("%d pods were deleted and %d nodes down at once, want one", o.Replaced(), o.Most())
	}
	if left := d.Take(); len(left) != 1 || left[0].Node != "a" {
		t.Errorf("departures are %+v, want the one from a", left)
	}
}

func TestANodeIsDownUntilItsPodWasReadyForMinReadySeconds(t *testing.T) {
	minReady := func(seconds int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "exporter"}, Spec: appsv1.DaemonSetSpec{MinReadySeconds: seconds}}
	}
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	type step struct {
		at int
		do func(o *Observer)
	}
	second := step{at: 14, do: func(o *Observer) { o.See(observed("b", "b1", true, true), false) }}
	for name, test := range map[string]struct {
		steps []step
		most  int
		want  []Outage
	}{
		"the next pod is deleted too early": {[]step{second}, 2, []Outage{{"a", at(0), at(15)}, {"b", at(14), time.Time{}}}},
		"the next pod is deleted in time":   {[]step{{16, second.do}}, 1, []Outage{{"a", at(0), at(15)}, {"b", at(16), time.Time{}}}},
		"the replacement becomes unready in between": {[]step{
			{10, func(o *Observer) { o.See(observed("a", "a2", false, false), false) }},
			{12, func(o *Observer) { o.See(readyAt("a", "a2", 12), false) }},
			{18, second.do}}, 2, []Outage{{"a", at(0), at(22)}, {"b", at(18), time.Time{}}}},
		"the replacement is deleted before it is available": {[]step{
			{10, func(o *Observer) { o.See(observed("a", "a2", true, true), false) }},
			{16, second.do}}, 2, []Outage{{"a", at(0), time.Time{}}, {"b", at(16), time.Time{}}}},
		"minReadySeconds is reduced meanwhile": {[]step{{8, func(o *Observer) { o.SeeDaemonSet(minReady(0)) }}, second}, 1,
			[]Outage{{"a", at(0), at(8)}, {"b", at(14), time.Time{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin)
			o := NewObserver(clock)
			o.SeeDaemonSet(minReady(10))
			o.See(observed("a", "a1", true, true), false)
			clock.SetTime(at(5))
			o.See(readyAt("a", "a2", 5), false)
			for _, s := range test.steps {
				clock.SetTime(at(s.at))
				s.do(o)
			}
			clock.SetTime(at(60))
			if diff := cmp.Diff(test.want, o.Outages()); diff != "" {
				t.Errorf("outages (-want +got):\n%s", diff)
			}
			if most := o.Most(); most != test.most {
				t.Errorf("%d nodes were down at once, want %d", most, test.most)
			}
		})
	}
}

func TestResetKeepsNodesThatAreDown(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(begin)
	o := NewObserver(clock)
	o.See(observed("a", "a1", true, true), false)
	o.See(observed("b", "b1", true, true), false)
	o.See(observed("b", "b2", true, false), false)
	clock.SetTime(begin.Add(time.Minute))
	o.Reset()
	if o.Replaced() != 0 || o.Most() != 1 {
		t.Errorf("%d pods were deleted and %d nodes down at once, want none and one", o.Replaced(), o.Most())
	}
	o.See(observed("a", "a2", true, false), false)
	if diff := cmp.Diff([]Outage{{"a", begin, begin.Add(time.Minute)}}, o.Outages()); diff != "" {
		t.Errorf("outages (-want +got):\n%s", diff)
	}
}

// The outage of a node that leaves ends, and pods that are removed with it do not count.
func TestANodeThatLeaves(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(begin)
	o := NewObserver(clock)
	o.See(observed("a", "a1", true, true), false)
	clock.SetTime(begin.Add(time.Minute))
	for _, node := range []string{"a", "b"} {
		o.SeeNodeLeave(node)
		o.See(observed(node, node+"1", true, true), true)
	}
	o.See(observed("c", "c1", true, true), false)
	if diff := cmp.Diff([]Outage{{"a", begin, begin.Add(time.Minute)}, {"c", begin.Add(time.Minute), time.Time{}}}, o.Outages()); diff != "" {
		t.Errorf("outages (-want +got):\n%s", diff)
	}
	if most := o.Most(); most != 1 {
		t.Errorf("%d nodes were down at once, want 1", most)
	}
}
