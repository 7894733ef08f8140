package daemonupdater

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A backup of etcd that is restored takes back what managers wrote, and their memory is ahead of
// the cluster.

func TestADeletionThatARestoredBackupTookBackIsMadeAgain(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.a.sees()
		s.a.sleepsBeforeDeleting(s.g.id)
		saved := s.backUp() // the slot is stored
		s.a.drive()
		s.restore(saved)
		s.worksUntil(s.a, "every node is updated", rollout.DefaultDeadlines.Progress, s.arrived)
		s.noneFailed("after the deletion was taken back")
	})
}

func TestNoPodIsDeletedUnderASlotThatARestoredBackupTookBack(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.a.sees()
		saved := s.backUp()
		s.a.sleepsBeforeDeleting(s.g.id)
		s.outage = true
		s.a.drive() // nothing is deleted
		s.outage = false
		s.restore(saved)
		s.a.sees()
		s.a.passes(s.g.id) // with a ledger that was not stored, this pass must not act
		s.arrives(s.a)
	})
}

func TestTheStatusThatARestoredBackupTookBackIsWrittenAgain(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		s.works(s.a, time.Minute)
		s.annotate(s.g, topsv1.AnnotationPaused, "false")
		s.works(s.a, time.Minute)
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		saved := s.backUp()
		s.goesBy(time.Minute)
		s.a.sees()
		s.a.passes(s.g.id)
		s.restore(saved)
		s.works(s.a, time.Minute)
		if !meta.IsStatusConditionTrue(s.rolloutOf(s.g.id).Status.Conditions, topsv1.RolloutPaused) {
			s.violate("nothing says that the rollout is paused")

		}
	})
}

// restores restores a backup, and leaves the cache of manager a with the pods that were lost: their
// versions are ahead of those that there will be for long. lost is what happened to a pod besides.
func (s *simSchedule) restores(lost func(pod simapi.Key)) {
	saved := s.backUp()
	for range 133 {
		for _, h := range s.hosts {
			s.setPodReady(s.podOf(0, h.name), corev1.ConditionTrue, h.clock(s.simWorld))
		}
	}
	for _, h := range s.hosts {
		lost(simapi.KeyOf(s.podOf(0, h.name)))
	}
	s.waits("all pods are available", s.arrived)
	s.a.sees()
	s.restore(saved)
}

func TestARolloutArrivesThoughItsSlotNamesAVersionThatARestoredBackupTookBack(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		schedule(t, []string{"single"}, func(s *simSchedule) {
			s.restores(func(pod simapi.Key) {
				if replaced {
					s.api.Remove(pod)
				}
			})
			s.gets(0, "good-1")
			s.a.seesAllBut(simPods)
			s.a.passes(s.g.id)
			s.inFlight(1)
			s.arrives(s.a)
		})
	}
}

func TestASlotIsGivenBackThoughItNamesAVersionThatARestoredBackupTookBack(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.restores(func(simapi.Key) {})
		s.gets(0, "good-1")
		s.a.seesAllBut(simPods)
		s.a.passes(s.g.id)
		s.gets(0, "good-0")
		s.worksUntil(s.a, "no slot is taken", 5*time.Minute, func() bool { return len(simSlots(s.rolloutOf(s.g.id))) == 0 })
	})
}

// A manager that still sees a ledger which a restored backup took back stores it again if the ledger of now has got the same
// version. Its slots were given when that was allowed: it is not a start against the settings of now.
func TestASlotThatARestoredBackupTookBackIsStoredAgainWhereItsVersionFits(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		s.gets(0, "good-1")
		s.works(s.a, time.Minute)
		saved := s.backUp()
		s.annotate(s.g, topsv1.AnnotationPaused, "false")
		s.countsTo(s.api.Counter + 100)
		node := s.begins()
		s.a.sees()
		was := s.rolloutOf(s.g.id).ResourceVersion
		s.restore(saved)
		s.goesBy(10 * time.Second)
		s.a.seesAllBut(simRollouts)
		version, _ := strconv.Atoi(was)
		s.countsTo(version - 1)
		s.annotateRollout(s.rolloutOf(s.g.id), topsv1.AnnotationApprovedWaves, "none")
		if is := s.rolloutOf(s.g.id); is.ResourceVersion != was || len(simSlots(is)) > 0 {
			s.violate("the ledger has version %s, not %s", is.ResourceVersion, was)
		}
		s.a.passes(s.g.id)
		if s.inFlight(1) != node {
			s.violate("%s has no slot", node)
		}
		s.a.sees()
		s.annotate(s.g, topsv1.AnnotationPaused, "false")
		s.arrives(s.a)
	})
}

// countsTo has the API server give all versions up to one.
func (s *simSchedule) countsTo(version int) {
	for pod := s.podOf(0, "n00"); s.api.Counter < version; {
		s.setFinalizer(simapi.KeyOf(pod), false)
	}
}

func TestASlotNamesTheVersionThatItNamedThoughTheCacheIsBehindForLong(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		for _, h := range s.hosts {
			s.setFinalizer(simapi.KeyOf(s.podOf(0, h.name)), false) // b does not see that they were written to
		}
		s.a.sees()
		s.a.sleepsBeforeDeleting(s.g.id)
		was := s.rolloutOf(s.g.id).Status.InFlight[0].PodVersion
		for range 3 {
			s.goesBy(time.Minute)
			s.b.seesAllBut(simPods)
			s.b.passes(s.g.id)
		}
		if is := s.rolloutOf(s.g.id).Status.InFlight[0].PodVersion; is != was {
			s.violate("the slot names version %s, it was %s", is, was)
		}
		s.a.drive()
		s.inFlight(1)
	})
}

// What a manager last saw ready on a node is what it lets leave the gate there, though another revision was ready since: a restored
// backup took that back before the manager saw it, or its cache is still as before.
func TestAPodLeavesTheGateThatWasLastSeenReadyBeforeABackupWasRestored(t *testing.T) {
	for _, behind := range []bool{false, true} {
		schedule(t, []string{"single"}, func(s *simSchedule) {
			gated(func(*simWorld) {})(s.simWorld)
			for _, h := range s.hosts {
				s.stays(h.name)
			}
			s.leader = s.a
			s.worksUntil(s.a, "a good revision is known", time.Hour, func() bool { return s.rolloutOf(s.g.id).Status.LastKnownGood != nil })
			s.annotate(s.g, topsv1.AnnotationPaused, "true")
			s.gets(0, "good-1")
			s.works(s.a, 30*time.Second)
			node := s.hosts[0].name
			s.api.Remove(simapi.KeyOf(s.podOf(0, node)))
			s.waits("a pod waits at the gate", func() bool { p := s.podOf(0, node); return p != nil && daemonset.AwaitsUpgrade(p) })
			saved := s.backUp()
			s.annotate(s.g, topsv1.AnnotationPaused, "false")
			s.worksUntil(s.b, "the node has the new revision", time.Hour, func() bool { return s.replaced(node, "good-1") == 1 })
			s.a.sees()
			if !behind {
				s.a.passes(s.g.id)
			}
			s.gets(0, "good-0")
			s.worksUntil(s.b, "the node has the earlier revision again", time.Hour, func() bool { return s.replaced(node, "good-0") == 1 })
			s.restore(saved)
			if behind {
				s.a.passes(s.g.id)
			}
			released := s.opened
			s.worksUntil(s.a, "the pod leaves the gate", time.Minute, func() bool { return s.opened > released })
		})
	}
}
