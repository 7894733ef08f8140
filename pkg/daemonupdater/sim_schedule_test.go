package daemonupdater

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simSchedule is a world in which nothing is drawn: a test says who does what, and in which
// order. Seeds found these orders once; the checks of the simulation apply to them too.
type simSchedule struct {
	*simWorld
	g *simGroup
	// a and b are two managers, each with its own cache.
	a, b *simManager
}

// schedule plays a story on three nodes, with one group of DaemonSets with these names, one node
// at a time.
func schedule(t *testing.T, sets []string, story func(*simSchedule)) {
	t.Helper()
	s := &simSchedule{}
	play(t, 1, func(w *simWorld) {
		s.simWorld, w.calm, w.policies, w.controller.lags = w, true, nil, nil
		for _, name := range []string{"n00", "n01", "n02"} {
			w.hosts = append(w.hosts, &simHost{name: name, up: true})
			w.addNode(w.hosts[len(w.hosts)-1])
		}
		id := simFleet
		if len(sets) == 1 {
			id = simSingle
		}
		w.addGroup(id, sets...)
		s.g = w.groups[0]
		w.annotate(s.g, topsv1.AnnotationMaxUnavailable, "1")
		s.waits("all pods are available", w.arrived)
		s.a, s.b = &simManager{w: w, name: "a"}, &simManager{w: w, name: "b"}
		for _, m := range []*simManager{s.a, s.b} {
			m.restart()
			m.sees()
			m.passes(s.g.id)
		}
		w.managers = []*simManager{s.a, s.b}
		story(s)
	})
	if s.failed() {
		t.Error(s.violations[0])
	}
	if t.Failed() {
		for _, line := range s.history {
			t.Log(line)
		}
	}
}

// sees lets the cache of a manager catch up with some kinds of objects, or with all if none are
// named.
func (m *simManager) sees(kinds ...string) {
	if m.w.outage {
		return
	}
	for _, kind := range simKinds {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			m.note(kind, m.cache.Advance(kind, m.cache.Behind(kind)))
		}
	}
	m.enqueue()
}

// seesAllBut lets the cache of a manager catch up with everything but one kind.
func (m *simManager) seesAllBut(kind string) {
	m.sees(slices.DeleteFunc(slices.Clone(simKinds), func(k string) bool { return k == kind })...)
}

// passes lets a manager make one pass.
func (m *simManager) passes(g observed.Group) {
	m.begin(g)
	m.drive()
}

// sleepsBeforeDeleting lets a manager make a pass up to its first deletion; drive continues it.
func (m *simManager) sleepsBeforeDeleting(g observed.Group) {
	m.begin(g)
	for !m.pass.done {
		i := slices.IndexFunc(m.parked, func(c *simCall) bool { return c.verb != "delete" })
		if i < 0 {
			m.w.say("%s sleeps before %s", m.name, m.parked[0])
			return
		}
		m.serveAt(i)
	}
	m.w.violate("%s deletes nothing", m.name)
	m.finish()
}

// waits lets time pass, second by second, until a condition holds.
func (s *simSchedule) waits(what string, holds func() bool) {
	for range 3600 {
		if holds() {
			s.say("%s", what)
			return
		}
		s.goesBy(time.Second)
	}
	s.violate("it never comes to that: %s", what)
}

// goesBy lets time pass.
func (s *simSchedule) goesBy(d time.Duration) {
	s.now = s.now.Add(d)
	if s.outage {
		return
	}
	s.kubernetes()
	s.settleAccounts()
}

// gets gives a DaemonSet of the group another image, and lets its controller see it.
func (s *simSchedule) gets(set int, image string) {
	s.setImage(s.g, set, image)
	s.kubernetes()
}

func (s *simSchedule) podOf(set int, node string) *corev1.Pod {
	return s.podOn(s.g.sets[set], node)
}

// begins lets manager a start the first node, and returns that node.
func (s *simSchedule) begins() string {
	s.a.sees()
	s.a.passes(s.g.id)
	return s.inFlight(1)
}

// inFlight checks that n nodes are in flight, and returns the first.
func (s *simSchedule) inFlight(n int) string {
	r := s.rolloutOf(s.g.id)
	if r == nil || len(r.Status.InFlight) != n {
		s.violate("%d nodes have to be in flight: %s", n, s.describe())
		return "n00"
	}
	if n == 0 {
		return ""
	}
	return r.Status.InFlight[0].Node
}

func TestANodeInFlightKeepsItsSlotWhenItsGroupTurnsToOTA(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		node := s.begins()
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		s.goesBy(reportInterval) // a freed slot is not stored before that
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(1)
		s.waits("the new pod is available", func() bool { return s.atTarget(s.g, node) })
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(0)
	})
}

func TestALostNodeKeepsItsSlotWhenItsGroupTurnsToOTAAndTheCacheIsBehind(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.b.sees()
		node := s.begins()
		s.power(s.host(node), false)
		s.waits("the node is offline", func() bool { return !simNodeReady(simapi.Get[*corev1.Node](s.api, simNodeKey(node))) })
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		s.b.seesAllBut(simPods) // to b the pod is alive and has no request
		s.b.passes(s.g.id)
		s.inFlight(1)
		s.goesBy(reportInterval)
		s.b.sees()
		s.b.passes(s.g.id)
		s.inFlight(1)
	})
}

func TestANodeWhosePodIsOutdatedAgainKeepsItsSlotUnderOTAUntilThatPodIsAvailable(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		node := s.begins()
		s.waits("the new pod is there", func() bool {
			pod := s.podOf(0, node)
			return pod != nil && pod.DeletionTimestamp == nil && pod.Spec.NodeName != ""
		})
		s.gets(0, "good-2")
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(1)
		s.waits("the new pod is available", func() bool { return s.nodeAvailable(s.g.sets, node) })
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(0)
	})
}

func TestASlotIsNotGivenBackByAManagerThatSeesThePodBeforeItWasDeleted(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.b.sees()
		node := s.begins() // its pod is deleted
		s.gets(0, "good-0")
		s.b.seesAllBut(simPods) // to b the pod is alive and at the target again
		s.b.passes(s.g.id)
		s.inFlight(1)
		s.waits("the new pod is available", func() bool { return s.atTarget(s.g, node) })
		s.b.sees()
		s.b.passes(s.g.id)
		s.inFlight(0)
	})
}

func TestADeletionThatComesLateFindsNoPodWhenItsSlotNamesAnotherOne(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.gets(1, "good-1")
		s.a.sees()
		s.a.sleepsBeforeDeleting(s.g.id)
		node := s.inFlight(1)
		was := s.rolloutOf(s.g.id).Status.InFlight[0].PodUID
		named := 0
		if s.podOf(0, node).UID != was {
			named = 1
		}
		s.gets(named, "good-0") // the pod that is named is fine again
		for range 3 {
			s.b.sees()
			s.b.passes(s.g.id)
		}
		if uid := s.rolloutOf(s.g.id).Status.InFlight[0].PodUID; uid == was {
			s.violate("the slot still names %s", uid)
		}
		s.a.drive()
		s.isThere(was)
	})
}

func TestADeletionThatComesLateFindsNoPodWhenItsGroupWasReleased(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		for _, h := range s.hosts {
			s.setFinalizer(simapi.KeyOf(s.podOf(0, h.name)), false) // b does not see that they were written to
		}
		s.a.sees()
		s.a.sleepsBeforeDeleting(s.g.id)
		was := s.podOf(0, s.inFlight(1)).UID
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "")
		s.b.seesAllBut(simPods)
		s.b.passes(s.g.id)
		if s.rolloutOf(s.g.id) == nil {
			s.violate("the rollout is deleted while a pod that it names can still be deleted")
		}
		for range 2 {
			s.b.sees()
			s.b.passes(s.g.id)
		}
		if s.rolloutOf(s.g.id) != nil {
			s.violate("the rollout is still there")
		}
		s.a.drive()
		s.isThere(was)
	})
}

func TestARolloutIsNotDeletedByAManagerThatSawItBeforeItHadASlot(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "")
		s.b.sees()
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
		s.gets(0, "good-1")
		s.a.sees()
		s.a.sleepsBeforeDeleting(s.g.id)
		s.b.passes(s.g.id)
		s.inFlight(1)
		s.a.drive()
	})
}

// isThere checks that a pod exists and is not terminating.
func (s *simSchedule) isThere(uid types.UID) {
	pods := s.setPods()
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid && p.DeletionTimestamp == nil }) {
		s.violate("pod %s was deleted late", uid)
	}
}

func TestANodeDoesNotStartInAWindowThatIsShorterThanTheOneTookThatIsDoneJustNow(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		day := &topsv1.MaintenanceWindow{Start: "00:00", DurationMinutes: 20, TimeZone: "UTC"}
		s.api.Put(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: topsv1.UpgradePolicySpec{Window: day}})
		s.annotate(s.g, topsv1.AnnotationUpgradePolicy, "nightly")
		s.gets(0, "good-1")
		for _, h := range s.hosts {
			s.setFinalizer(simapi.KeyOf(s.podOf(0, h.name)), true)
		}
		node := s.begins()
		s.works(s.a, 8*time.Minute)
		s.setFinalizer(simapi.KeyOf(s.podOf(0, node)), false)
		s.waits("the node took eight minutes", func() bool { return s.atTarget(s.g, node) })
		s.waits("the window closes in five minutes", func() bool { return s.now.Sub(fixture.Epoch) >= 15*time.Minute })
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(0)
		if diff := cmp.Diff(int32(1), s.rolloutOf(s.g.id).Status.Updated); diff != "" {
			s.violate("nodes updated (-want +got):\n%s", diff)
		}
		s.goesBy(23*time.Hour + 50*time.Minute)
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(1)
	})
}
