package daemonupdater

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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
