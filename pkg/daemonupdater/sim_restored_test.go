package daemonupdater

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
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
		s.a.passes(s.g.id) // with a ledger that nobody stored, this pass must not act
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
