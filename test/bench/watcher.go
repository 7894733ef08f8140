package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/test/harness"
)

// fleet follows one DaemonSet to a version. The tests' observer determines which of its
// nodes are down.
type fleet struct {
	observer *harness.Observer
	clock    clock.PassiveClock

	mu sync.Mutex
	// version is the target version, want the number of nodes that should reach it.
	version string
	want    int
	began   time.Time
	reached chan struct{}
	// done is how long it took until that was reached; 0 when it was not.
	done time.Duration
	// pods are the newest pods by node; atGoal the nodes with a pod of the
	// version that was Ready.
	pods   map[string]*corev1.Pod
	atGoal map[string]bool
}

// fleetCounts is the result of a count.
type fleetCounts struct {
	// done is the time until every wanted node was at the version.
	done time.Duration
	// updated is the number of nodes at the version, deleted the number of deletions.
	updated, deleted int
	// most is the maximum number of nodes down at once, mean the average over time.
	most int
	mean float64
	// restart is the mean time from the deletion of a pod until its replacement is
	// available.
	restart time.Duration
}

func newFleet(clock clock.PassiveClock) *fleet {
	return &fleet{clock: clock, observer: harness.NewObserver(clock), pods: map[string]*corev1.Pod{}, atGoal: map[string]bool{}}
}

// watchFleet follows the DaemonSet whose pods match a selector until ctx ends.
func watchFleet(ctx context.Context, c *harness.Cluster, selector string) (*fleet, error) {
	f := newFleet(clock.RealClock{})
	var err error
	f.observer, err = harness.Observe(ctx, c, selector, f.see)
	return f, err
}

// begin restarts counting for a version that want nodes should reach. The channel is
// closed when they have.
func (f *fleet) begin(version string, want int) <-chan struct{} {
	f.observer.Reset()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version, f.want, f.began, f.done = version, want, f.clock.Now(), 0
	f.reached, f.atGoal = make(chan struct{}), map[string]bool{}
	for _, pod := range f.pods {
		f.judge(pod, pod.DeletionTimestamp != nil)
	}
	return f.reached
}

// result returns the counts since begin.
func (f *fleet) result() fleetCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.began.Add(f.done)
	if f.done == 0 {
		end = f.clock.Now()
	}
	s := fleetCounts{done: f.done, updated: len(f.atGoal), deleted: f.observer.Replaced(), most: f.observer.Most()}
	var down, restarts time.Duration
	ended := 0
	for _, o := range f.observer.Outages() {
		if !o.To.IsZero() {
			restarts += o.To.Sub(o.From)
			ended++
		}
		from, to := o.From, o.To
		if from.Before(f.began) {
			from = f.began
		}
		if to.IsZero() || to.After(end) {
			to = end
		}
		down += max(0, to.Sub(from))
	}
	if ended > 0 {
		s.restart = restarts / time.Duration(ended)
	}
	s.mean = down.Seconds() / end.Sub(f.began).Seconds()
	return s
}

func (f *fleet) see(pod *corev1.Pod, gone bool) {
	if metav1.GetControllerOf(pod) == nil || pod.Spec.NodeName == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ending := gone || pod.DeletionTimestamp != nil
	if other := f.pods[pod.Spec.NodeName]; ending && other != nil && other.UID != pod.UID {
		return // the deletion of a pod whose replacement was already observed
	}
	f.pods[pod.Spec.NodeName] = pod
	f.judge(pod, ending)
}

// judge updates a node's state from its newest pod.
func (f *fleet) judge(pod *corev1.Pod, ending bool) {
	if ending || pod.Labels[versionLabel] != f.version {
		delete(f.atGoal, pod.Spec.NodeName)
	}
	if ending || pod.Labels[versionLabel] != f.version || !isReady(pod) {
		return
	}
	f.atGoal[pod.Spec.NodeName] = true
	if f.reached != nil && f.done == 0 && len(f.atGoal) >= f.want {
		f.done = max(f.clock.Now().Sub(f.began), time.Millisecond)
		close(f.reached)
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
