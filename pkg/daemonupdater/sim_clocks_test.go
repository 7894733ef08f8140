package daemonupdater

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Clocks that are hours from each other. What a process remembers it compares by the monotonic clock, which does not
// jump. What is stored it compares by the wall clock: so that of a manager jumps here when the manager starts, as when
// NTP sets a clock that was wrong since the boot.

// boots starts a manager whose clock is that far ahead.
func (m *simManager) boots(skew time.Duration) {
	m.jump(skew)
	m.leap, m.leaps = 0, nil // a process that starts has seen no jump, which would excuse it
	m.restart()
}

// firstWave brings a rollout to where the only node of its first wave, which soaks for half an hour, is updated.
func (s *simSchedule) firstWave() {
	s.putPolicy(func(spec *topsv1.UpgradePolicySpec) {
		spec.Waves = []topsv1.Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(1)), SoakSeconds: 1800}}
	})
	s.gets(0, "good-1")
	s.worksUntil(s.a, "the first node is updated", time.Hour, func() bool { return s.updated() > 0 })
	s.works(s.a, time.Minute)
}

// updated counts the nodes that are at the target.
func (s *simSchedule) updated() (n int) {
	for _, h := range s.hosts {
		if s.atTarget(s.g, h.name) {
			n++
		}
	}
	return n
}

func TestAWaveSoaksForAsLongThoughTheClockOfItsManagerJumps(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 3 * time.Hour, "back": -3 * time.Hour, "not": 0} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.firstWave()
				s.a.boots(by)
				s.works(s.a, 20*time.Minute)
				if n := s.updated(); n != 1 {
					s.violate("%d nodes are updated, and the wave soaks", n)
				}
				s.worksUntil(s.a, "every node is updated", 20*time.Minute, s.arrived)
			})
		})
	}
}

func TestAWaveDoesNotSoakWhileNoManagerWorks(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.firstWave()
		s.goesBy(3 * time.Hour)
		s.b.restart()
		s.works(s.b, 20*time.Minute)
		if n := s.updated(); n != 1 {
			s.violate("%d nodes are updated, and the wave soaks", n)
		}
		s.worksUntil(s.b, "every node is updated", 20*time.Minute, s.arrived)
	})
}

// TestAManagerThatStartsAheadDoesNotTakeANewPodForAvailable: its budget would have a second node down.
func TestAManagerThatStartsAheadDoesNotTakeANewPodForAvailable(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		simapi.Edit(s.api, s.g.sets[0], func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 30 })
		s.gets(0, "good-1")
		s.worksUntil(s.a, "a node is in flight", 5*time.Minute, func() bool { return len(s.rolloutOf(s.g.id).Status.InFlight) > 0 })
		node := s.inFlight(1)
		s.waits("the new pod is Ready", func() bool {
			pod := s.podOf(0, node)
			return pod != nil && simPodReady(pod) && strings.HasPrefix(pod.Spec.Containers[0].Image, "good-1")
		})
		s.b.boots(3 * time.Hour)
		s.works(s.b, 10*time.Second)
		if s.inFlight(1) != node {
			s.violate("%s gave its slot back, and its pod is not available", node)
		}
		s.worksUntil(s.b, "every node is updated", 20*time.Minute, s.arrived)
	})
}

func TestAVersionThatKillsItsNodesReachesOneBudgetOfThemWhateverTheClockOfTheManager(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 3 * time.Hour, "behind": -3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.a.boots(by)
				if n := s.kills(12, 0); n != 3 {
					s.violate("%d nodes are dead, with a budget of 3", n)
				}
			})
		})
	}
}

func TestAVersionThatKillsItsNodesLaterHaltsWhateverTheClockOfTheManager(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 3 * time.Hour, "behind": -3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.a.boots(by)
				if n := s.kills(60, 30*time.Second); n > 20 || !s.halted() {
					s.violate("%d of 60 nodes are dead, halted: %v", n, s.halted())
				}
			})
		})
	}
}

func TestARenewalFromBeforeTheClockOfANodeWentBackProvesNothing(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		backBeforeItsPodIsReady := func() {
			for _, h := range s.hosts {
				pod := s.podOf(0, h.name)
				if h.skew == 0 && pod != nil && strings.HasPrefix(pod.Spec.Containers[0].Image, "fuse") && s.now.Sub(pod.CreationTimestamp.Time) >= s.startOf(pod)-2*time.Second {
					h.jump(s.simWorld, -time.Hour)
				}
			}
		}
		if n := s.kills(12, 0, backBeforeItsPodIsReady); n != 3 {
			s.violate("%d nodes are dead, with a budget of 3", n)
		}
	})
}
