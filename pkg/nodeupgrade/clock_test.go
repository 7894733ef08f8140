package nodeupgrade

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// A controller that starts with a clock that is ahead does not take a new state for an old one.
func TestTheControllerKnowsThatItsClockIsAhead(t *testing.T) {
	const off = 3 * time.Hour
	r := New(Options{Ahead: func(time.Time) time.Duration { return off }})
	now := time.Now()
	if since := r.observer.stateTimes.Since("x", now.Add(-off), now); !since.Equal(now) {
		t.Errorf("a state that began just now lasts since %s ago", now.Sub(since))
	}
}

// A manager whose clock is hours ahead takes over a drain: pods of Jobs still have the time that the policy gives them, and a pod that the
// manager before evicted has its grace period.
func TestADrainIsTakenOverByAManagerWhoseClockIsAhead(t *testing.T) {
	const off = 210 * time.Minute
	s := newStage(t, driver, plugin)
	s.workload("serve", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(7200)) })
	s.workload("train", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch/v1", "Job" })
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation.Drain = &topsv1.DrainPolicy{Scope: topsv1.DrainAccelerator, Resources: []string{"enflame.com/*"}, WaitForJobsSeconds: 3600, TimeoutSeconds: 5400}
	})
	s.untilTask("node_evict")
	passes := func() {
		t.Helper()
		for range 3 {
			s.now = s.now.Add(turnTime)
			s.heartbeat(true)
			s.agent()
			_, err := s.reconcile()
			s.must(err)
		}
	}
	passes()
	s.now = s.now.Add(off)
	s.ahead = off
	s.start()
	passes()
	op, want := s.upgrade().Status.Operation, "waiting for Jobs to complete: "+s.namespace+"/train; terminating: "+s.namespace+"/serve"
	if op.Task != s.node+"_node_evict" || op.Reason != operation.ReasonInProgress || op.Message != want {
		t.Errorf("%s %s %s: %s, want %q", op.Phase, op.Task, op.Reason, op.Message, want)
	}
}
