package daemonupdater

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// A node that is not Ready for some seconds moves nothing.

// flaps lets the kubelet of a node report not Ready for ten seconds.
func (s *simSchedule) flaps(node string) { s.host(node).unwell = s.now.Add(10 * time.Second) }

// marked reports whether a pod of a node has PodNeedUpgrade.
func (s *simSchedule) marked(node string) bool {
	pod := s.podOf(0, node)
	return pod != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == topsv1.PodNeedUpgrade })
}

func TestANodeThatFlapsIsNotSkippedAndOneThatStaysAwayIs(t *testing.T) {
	for name, tt := range map[string]struct {
		away    time.Duration
		skipped bool
	}{"for ten seconds": {10 * time.Second, false}, "for a minute": {time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.gets(0, "hang-1")
				started := s.begins()
				other := s.hosts[slices.IndexFunc(s.hosts, func(h *simHost) bool { return h.name != started })].name
				s.host(other).unwell = s.now.Add(tt.away)
				skipped, marked := false, false
				for range 10 {
					s.works(s.a, 10*time.Second)
					skipped = skipped || s.rolloutOf(s.g.id).Status.SkippedNodes > 0
					marked = marked || s.marked(other)
				}
				if skipped != tt.skipped || marked != tt.skipped {
					s.violate("skipped: %v, marked: %v; want %v", skipped, marked, tt.skipped)
				}
				if s.marked(other) {
					s.violate("%s is back and still marked", other)
				}
			})
		})
	}
}

func TestANodeThatFlapsAfterItsUpgradeDoesNotFail(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
		s.gets(0, "good-1")
		s.worksUntil(s.a, "every node is updated", time.Hour, s.arrived)
		for _, h := range s.hosts {
			s.flaps(h.name)
		}
		for range 6 {
			s.works(s.a, 10*time.Second)
			s.noneFailed("while nodes flap")
			if s.halted() {
				s.violate("the rollout halts because nodes flap")
			}
		}
	})
}

func TestAQueuedNodeThatFlapsKeepsItsSlot(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "hang-1")
		s.begins()
		queued := s.rolloutOf(s.g.id).Status.Queued
		if len(queued) == 0 {
			s.violate("no node is queued: %s", s.describe())
			return
		}
		node := queued[0].Node
		s.flaps(node)
		for range 4 {
			s.works(s.a, 10*time.Second)
			if !slices.ContainsFunc(s.rolloutOf(s.g.id).Status.Queued, func(n topsv1.NodeSlot) bool { return n.Node == node }) {
				s.violate("%s left the queue", node)
			}
		}
		pod := s.podOf(0, node)
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == podreplace.Fenced }) {
			s.violate("pod %s is fenced", pod.Name)
		}
	})
}
