package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// podOn returns a pod of DaemonSet d; its UID is node and version.
func podOn(node, version string, ready, ending bool) *corev1.Pod {
	controller, status := true, corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(node + version), Labels: map[string]string{versionLabel: version},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &controller}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
	if ending {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return pod
}

func TestAFleetIsFollowedToAVersion(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	f := newFleet(clock)
	at := func(seconds int, pod *corev1.Pod, gone bool) {
		clock.SetTime(now.Add(time.Duration(seconds) * time.Second))
		f.observer.See(pod, gone)
		f.see(pod, gone)
	}
	for _, node := range []string{"a", "b", "c"} {
		at(0, podOn(node, "1", true, false), false)
	}
	reached := f.begin("2", 2)

	at(1, podOn("a", "1", true, true), false)
	at(2, podOn("b", "1", true, true), false)
	at(3, podOn("a", "2", false, false), false)
	at(4, podOn("a", "1", true, true), true) // the deletion of the old pod, observed late
	at(5, podOn("a", "2", true, false), false)
	at(6, podOn("c", "1", false, false), false) // offline, without a deletion
	select {
	case <-reached:
		t.Fatal("two nodes are wanted, one is updated")
	default:
	}
	at(7, podOn("b", "1", true, true), true)
	at(8, podOn("b", "2", true, false), false)
	select {
	case <-reached:
	default:
		t.Fatal("both wanted nodes are updated")
	}

	want := fleetCounts{done: 8 * time.Second, updated: 2, deleted: 2, most: 2, mean: 10. / 8, restart: 5 * time.Second}
	if diff := cmp.Diff(want, f.result(), cmp.AllowUnexported(fleetCounts{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanTimes(t *testing.T) {
	output := `goos: linux
BenchmarkPlan/first/1000_nodes-2   753   3000 ns/op   615224 B/op   1354 allocs/op
BenchmarkPlan/first/1000_nodes-2   753   1000 ns/op   615224 B/op   1354 allocs/op
BenchmarkPlan/first/1000_nodes-2   753   2000.5 ns/op   615224 B/op   1354 allocs/op
BenchmarkEvent/budget_50/10000_nodes-2   753   9 ns/op   7 B/op   1354 allocs/op
PASS`
	want := planTimes{{"first", 1000, 2000, 615224}, {"budget_50", 10000, 9, 7}}
	if diff := cmp.Diff(want, planTimesIn(output), cmp.AllowUnexported(planTime{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
