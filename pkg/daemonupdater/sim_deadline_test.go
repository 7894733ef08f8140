package daemonupdater

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/test/simapi"
)

// The time that a node has under its slot is time in which a manager worked.

var simTrio = []string{"driver", "plugin", "toolkit"}

// worksUntil lets a manager make a pass every ten seconds until something holds.
func (s *simSchedule) worksUntil(m *simManager, what string, within time.Duration, holds func() bool) {
	for end := s.now.Add(within); !holds(); {
		if s.now.After(end) {
			s.violate("not within %s: %s: %s", within, what, s.describe())
			return
		}
		s.goesBy(10 * time.Second)
		m.sees()
		m.passes(s.g.id)
	}
	s.say("%s", what)
}

// works lets a manager make a pass every ten seconds for a while.
func (s *simSchedule) works(m *simManager, d time.Duration) {
	end := s.now.Add(d)
	s.worksUntil(m, "time passes", 2*d, func() bool { return !s.now.Before(end) })
}

// getsAll gives every DaemonSet of the group another image.
func (s *simSchedule) getsAll(image string) {
	for i := range s.g.sets {
		s.setImage(s.g, i, image)
	}
	s.kubernetes()
}

// replaced counts the pods of a node at an image that are Ready.
func (s *simSchedule) replaced(node, image string) int {
	n := 0
	for i := range s.g.sets {
		if pod := s.podOf(i, node); pod != nil && pod.Spec.Containers[0].Image == image && simPodReady(pod) {
			n++
		}
	}
	return n
}

// failed are the nodes that the ledger counts as failed.
func (s *simSchedule) failedNodes() []topsv1.NodeNote { return s.rolloutOf(s.g.id).Status.Failed }

// noneFailed holds that no node is counted as failed.
func (s *simSchedule) noneFailed(when string) {
	if failed := s.failedNodes(); len(failed) > 0 {
		s.violate("%s: %s counts as failed: %s", when, failed[0].Node, failed[0].Message)
	}
}

// firstOfThree brings a group of three to where a node has the first of three pods replaced.
func (s *simSchedule) firstOfThree() string {
	s.getsAll("good-1")
	node := s.begins()
	s.waits("the first pod is replaced", func() bool { return s.replaced(node, "good-1") == 1 })
	return node
}

// arrives holds that the rollout gets to its end with a manager at work.
func (s *simSchedule) arrives(m *simManager) {
	s.worksUntil(m, "every node is updated", time.Hour, s.arrived)
	s.noneFailed("at the end")
}

func TestANodeIsNotFailedForTheTimeInWhichNoManagerWorked(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.firstOfThree()
		s.goesBy(2 * rollout.DefaultDeadlines.Progress)
		s.b.sees()
		s.b.passes(s.g.id)
		s.noneFailed("after the absence")
		s.arrives(s.b)
	})
}

func TestANodeThatIsUnavailableAfterAnAbsenceHasItsWholeDeadline(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.getsAll("hang-1")
		node := s.begins()
		s.waits("the new pod hangs", func() bool { pod := s.podOf(0, node); return pod != nil || s.podOf(2, node) != nil })
		s.works(s.a, time.Minute)
		s.goesBy(2 * rollout.DefaultDeadlines.Progress)
		s.works(s.b, rollout.DefaultDeadlines.Progress-2*time.Minute)
		s.noneFailed("before the deadline of the time worked")
		s.worksUntil(s.b, "the node fails", 5*time.Minute, func() bool { return len(s.failedNodes()) == 1 })
	})
}

func TestANodeIsNotFailedForTheTimeInWhichTheSettingsWereWrong(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.firstOfThree()
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "many")
		s.works(s.a, 2*rollout.DefaultDeadlines.Progress)
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "1")
		s.a.sees()
		s.a.passes(s.g.id)
		s.noneFailed("after the wrong setting")
		s.arrives(s.a)
	})
}

func TestANodeIsNotFailedForTheTimeInWhichTheAPIServerWasAway(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.firstOfThree()
		s.outage = true
		s.works(s.a, 2*rollout.DefaultDeadlines.Progress)
		s.outage = false
		if wait := s.a.timers[s.g.id].Sub(s.now); wait > watch.MaxBackoff {
			s.violate("the next pass after the outage is in %s", wait)
		}
		s.a.passes(s.g.id)
		s.noneFailed("after the outage")
		s.arrives(s.a)
	})
}

func TestSixPodsThatTakeTwoMinutesEachDoNotFailTheirNode(t *testing.T) {
	schedule(t, []string{"a", "b", "c", "d", "e", "f"}, func(s *simSchedule) {
		for _, key := range s.g.sets {
			simapi.Edit(s.api, key, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 120 })
		}
		s.goesBy(3 * time.Minute)
		s.getsAll("good-1")
		s.works(s.a, 2*rollout.DefaultDeadlines.Progress)
		s.noneFailed("in the first node")
		s.worksUntil(s.a, "every node is updated", 2*time.Hour, s.arrived)
		s.noneFailed("at the end")
	})
}

func TestANodeThatFlapsDoesNotHoldItsSlotForEver(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "hang-1")
		node := s.begins()
		flap := func() {
			s.host(node).unwell = s.now.Add(30 * time.Second)
			s.works(s.a, rollout.DefaultDeadlines.Progress/2)
		}
		within := 3*rollout.DefaultDeadlines.Progress + rollout.DefaultDeadlines.Lost
		for end := s.now.Add(within + rollout.DefaultDeadlines.Progress); s.now.Before(end) && len(s.failedNodes()) == 0; {
			flap()
		}
		if len(s.failedNodes()) != 1 {
			s.violate("%s flaps, and keeps its slot after %s", node, within)
		}
	})
}

func TestANodeThatIsAvailableIsNotFailedByItsDeadline(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		node := s.firstOfThree()
		s.refused = func(c *simCall) bool { return c.verb == "delete" && c.key.Kind == simPods }
		s.works(s.a, 2*rollout.DefaultDeadlines.Progress)
		s.noneFailed("while its pods may not be deleted")
		s.refused = nil
		s.arrives(s.a)
		_ = node
	})
}
