package daemonupdater

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A version that kills its nodes spreads no faster than anybody can know.

// kills rolls out a version that kills each node for good that long after its pod is Ready, over
// some nodes with a budget of three, and returns how many it kills. Something happens meanwhile, every second.
func (s *simSchedule) kills(nodes int, after time.Duration, meanwhile ...func()) int {
	for i := len(s.hosts); i < nodes; i++ {
		s.hosts = append(s.hosts, &simHost{name: fmt.Sprintf("n%02d", i), up: true})
		s.addNode(s.hosts[i])
	}
	s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
	s.waits("all pods are available", s.arrived)
	s.gets(0, "fuse-"+after.String())
	for end := s.now.Add(10 * time.Minute); s.now.Before(end); {
		for _, do := range meanwhile {
			do()
		}
		s.goesBy(time.Second)
		s.doDue()
		s.a.sees()
		s.a.passes(s.g.id)
	}
	down := 0
	for _, h := range s.hosts {
		if !h.up {
			down++
		}
	}
	return down
}

// doDue executes what is due.
func (s *simSchedule) doDue() {
	s.calm = false
	s.doPlanned()
	s.calm = true
}

func TestAVersionThatKillsItsNodesBeforeTheirNextHeartbeatReachesOneBudgetOfThem(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		if n := s.kills(12, 0); n != 3 {
			s.violate("%d nodes are dead, with a budget of 3", n)
		}
	})
}

func TestAVersionThatKillsItsNodesLaterHaltsWithinTheProbation(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		n := s.kills(60, 30*time.Second)
		t.Logf("%d of 60 nodes are dead, with a budget of 3", n)
		if n > 20 || !s.halted() {
			s.violate("%d of 60 nodes are dead, halted: %v", n, s.halted())
		}
	})
}

func TestAVersionWhosePodsCrashAfterTheyWereReadyHalts(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		for i := len(s.hosts); i < 40; i++ {
			s.hosts = append(s.hosts, &simHost{name: fmt.Sprintf("n%02d", i), up: true})
			s.addNode(s.hosts[i])
		}
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
		s.waits("all pods are available", s.arrived)
		s.gets(0, "relapse-1")
		s.worksUntil(s.a, "the rollout halts", 15*time.Minute, s.halted)
		touched := s.rolloutOf(s.g.id).Status.Touched
		for range 30 {
			s.works(s.a, time.Minute)
			if st := s.rolloutOf(s.g.id).Status; !s.halted() || st.Touched != touched || st.LastKnownGood != nil && st.LastKnownGood.Revision == st.Revision {
				s.violate("halted %t, %d nodes touched, %d before", s.halted(), st.Touched, touched)
			}
		}
	})
}

// By the time that it is known that they crash-loop, they were replaced long ago.
func TestAVersionWhosePodsRunForMinutesBeforeTheyCrashHalts(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
		s.waits("all pods are available", s.arrived)
		good := s.rolloutOf(s.g.id).Status.Revision
		s.worksUntil(s.a, "it is known to be good", 15*time.Minute, func() bool { return s.rolloutOf(s.g.id).Status.LastKnownGood != nil })
		s.gets(0, simSlowly+"-1")
		t.Logf("they crash after %s", s.relapsesAfter(simSlowly+"-1"))
		s.worksUntil(s.a, "the rollout halts", 45*time.Minute, s.halted)
		for range 60 {
			s.works(s.a, time.Minute)
			if st := s.rolloutOf(s.g.id).Status; !s.halted() || st.LastKnownGood.Revision != good {
				s.violate("halted %t, good is %s", s.halted(), st.LastKnownGood.Revision)
			}
		}
	})
}

func TestAVersionWhosePodsCrashAfterTheManagerWasRestartedHalts(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
		s.waits("all pods are available", s.arrived)
		s.works(s.a, 15*time.Minute) // nodes and DaemonSet are not new
		good := s.rolloutOf(s.g.id).Status.Revision
		s.gets(0, "relapse-1")
		over := func() bool {
			st := s.rolloutOf(s.g.id).Status
			return st.Revision != good && st.Updated == 3 && st.InFlightNodes == 0
		}
		s.worksUntil(s.a, "every slot is over", 5*time.Minute, over)
		s.a.restart()
		s.worksUntil(s.a, "the rollout halts", 15*time.Minute, s.halted)
		if st := s.rolloutOf(s.g.id).Status; st.LastKnownGood != nil && st.LastKnownGood.Revision == st.Revision {
			s.violate("a version that crashes is known to be good")
		}
	})
}

func TestWithoutAProbationAVersionThatKillsItsNodesSpreads(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.api.Put(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Spec: topsv1.UpgradePolicySpec{ProbationSeconds: ptr.To[int32](0)}})
		s.annotate(s.g, topsv1.AnnotationUpgradePolicy, "fast")
		if n := s.kills(12, 0); n <= 3 {
			s.violate("only %d nodes are dead", n)
		}
	})
}
