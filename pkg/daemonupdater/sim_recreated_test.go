package daemonupdater

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		policy(901) // every node is read again
		for range 3 {
			s.a.sees(simPods, simPolicies, simRollouts)
			s.a.passes(s.g.id)
			s.goesBy(reportInterval)
		}
		s.a.sees()
		s.a.passes(s.g.id)
	})
}
