package daemonupdater

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A DaemonSet that is deleted and created again under its name may adopt the pods of the former one. A
// manager whose cache shows the former DaemonSet sees none of its pods.

func TestAQueuedNodeIsNotStartedBecauseItsPodsSeemGoneWithTheirFormerDaemonSet(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		policy := func(lost int32) {
			s.api.Put(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: topsv1.UpgradePolicySpec{LostDeadlineSeconds: ptr.To(lost)}})
		}
		policy(900)
		s.annotate(s.g, topsv1.AnnotationUpgradePolicy, "lost")
		s.goesBy(10 * time.Minute)
		s.gets(0, "hang-1")
		s.begins() // another node is queued, for its driver
		s.gets(1, "good-1")
		s.works(s.a, time.Minute)
		s.recreateSet(s.g.sets[0], true)
		s.kubernetes() // it adopts its pods
		policy(901)    // every node is read again
		for range 3 {
			s.a.sees(simPods, simPolicies, simRollouts)
			s.a.passes(s.g.id)
			s.goesBy(reportInterval)
		}
		s.a.sees()
		s.a.passes(s.g.id)
	})
}

// The cache shows that it was created again while a pass is about to give a slot back.
func TestASlotIsKeptWhenItsDaemonSetIsCreatedAgainDuringThePass(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.goesBy(10 * time.Minute)
		s.gets(0, "hang-1")
		node := s.begins()
		old := simapi.Get[*appsv1.DaemonSet](s.api, s.g.sets[0])
		s.gone = map[simapi.Key]*appsv1.DaemonSet{s.g.sets[0]: old}
		s.api.Remove(s.g.sets[0])
		s.orphan(old.UID)
		s.a.sees()
		s.recreateMissing()
		s.a.begin(s.g.id)
		s.a.sees()
		s.a.drive()
		if s.inFlight(1) != node {
			s.violate("the slot of %s is given back", node)
		}
		s.goesBy(time.Minute)
		s.a.sees()
		s.a.passes(s.g.id)
		s.noneFailed("after it was created again")
	})
}

// The rollout of the former DaemonSet is about to be collected, and with it each slot in it: a manager that slept would
// delete the pod of a slot that nobody knows any more.
func TestNoNodeStartsInTheRolloutOfAFormerDaemonSet(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.goesBy(10 * time.Minute)
		s.recreateSet(s.g.sets[0], false)
		for _, h := range s.hosts {
			for _, pod := range s.podsOn(s.g.sets[0], h.name) {
				s.api.Remove(simapi.KeyOf(pod)) // as the garbage collector does
			}
		}
		s.waits("the new DaemonSet has its pods", s.arrived)
		s.goesBy(10 * time.Minute)
		s.gets(0, "good-1")
		s.a.sees()
		s.a.passes(s.g.id)
		s.inFlight(0)
		s.collectRollout(s.rolloutOf(s.g.id))
		s.arrives(s.a)
	})
}

func TestNothingIsStartedOrLostWhileOrphansAwaitTheirAdoption(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.goesBy(10 * time.Minute)
		s.gets(1, "good-1")
		node := s.begins()
		var kept []types.UID
		for _, h := range s.hosts {
			for set := range s.g.sets {
				if pod := s.podOf(set, h.name); h.name != node {
					kept = append(kept, pod.UID)
				}
			}
		}
		s.recreateSet(s.g.sets[0], true)
		for range 20 { // the DaemonSet controller is slow
			s.now = s.now.Add(time.Minute)
			s.a.sees()
			s.a.passes(s.g.id)
		}
		s.noneFailed("with orphans")
		for _, uid := range kept {
			s.isThere(uid)
		}
		s.arrives(s.a)
	})
}

// A gr is deleted while the pods of its driver are orphans, and a backup of that moment is restored when they are gone. The drain of a
// node for the other gr then names its orphan, until a person has removed it.
func TestAnOrphanThatABackupBringsBackKeepsItsNodeOnlyUntilItIsRemoved(t *testing.T) {
	twoGrs(t, func(w *simWorld, first, second *simGroup) {
		w.accidents = rand.New(rand.NewPCG(1, 6))
		h := w.hosts[1]
		h.machine.stops, h.machine.runtime, h.machine.configured = true, "runc", "runc"
		w.orphan(simapi.Get[*appsv1.DaemonSet](w.api, first.sets[0]).UID)
		w.deleteGr(first)
		saved := w.backUp()
		for range 30 {
			w.step()
		}
		w.restore(saved)
		if w.podOn(first.sets[0], h.name) == nil {
			w.violate("the backup brings no orphan back")
		}
		w.gets(second, "good-2", 0, 1)
		named := func() bool {
			u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Named(simUpgrades, "", h.name))
			return u != nil && u.Status.Operation != nil && strings.Contains(u.Status.Operation.Message, "declare no controller")
		}
		if w.until("the orphan is named", time.Hour, named) {
			w.settle()
			w.until("L1: every reachable node gets to the target", 4*time.Hour, w.arrived)
		}
	})
}
