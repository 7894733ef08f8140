package daemonupdater

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A failure belongs to the component, the revision and the machine that failed.

// halts brings a group to a halt: the version of one of its DaemonSets crashes on two nodes.
func (s *simSchedule) halts(set int) {
	s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "2")
	s.gets(set, "crash-1")
	s.worksUntil(s.a, "the rollout halts", time.Hour, s.halted)
}

func (s *simSchedule) halted() bool {
	return meta.IsStatusConditionTrue(s.rolloutOf(s.g.id).Status.Conditions, topsv1.RolloutHalted)
}

// startsNothing holds that no pod of an available node is deleted for a while.
func (s *simSchedule) startsNothing(why string) {
	var kept []types.UID
	for _, h := range s.hosts {
		if s.nodeAvailable(s.g.sets, h.name) {
			for i := range s.g.sets {
				kept = append(kept, s.podOf(i, h.name).UID)
			}
		}
	}
	s.works(s.a, 5*time.Minute)
	s.say("%s", why)
	for _, uid := range kept {
		s.isThere(uid)
	}
}

func TestAHaltOutlivesTheChangeOfAnotherComponent(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.halts(2)
		s.gets(0, "good-2")
		s.startsNothing("the halt is for another component")
		if !s.halted() {
			s.violate("the halt is forgotten")
		}
		s.gets(2, "good-2")
		s.arrives(s.a)
	})
}

func TestNothingStartsWhileAGcuResourceIsDeleted(t *testing.T) {
	schedule(t, simTrio, func(s *simSchedule) {
		s.getsAll("good-1")
		s.begins()
		simapi.Edit(s.api, simapi.Key{Kind: simGrs, Name: s.g.id.Name}, func(gr *topsv1.GcuResource) {
			now := metav1.NewTime(s.now)
			gr.DeletionTimestamp, gr.Finalizers = &now, []string{"topsops.enflame.com/teardown"}
		})
		s.api.Remove(s.g.sets[2]) // components go in reverse order
		s.g.sets = s.g.sets[:2]
		s.startsNothing("the gr is being deleted")
	})
}

func TestAFailureFollowsTheNameOfItsNode(t *testing.T) {
	for _, tt := range []struct {
		name, machine string
		fails         bool
	}{
		{"the Node object of the same machine is created again", "machine-1", true},
		{"the machine is another", "machine-2", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				node := s.hosts[0].name
				s.setMachine(node, "machine-1")
				s.a.sees()
				s.a.passes(s.g.id)
				s.gets(0, "crash-1")
				s.worksUntil(s.a, "the node fails", time.Hour, func() bool { return s.countsAsFailed(node) })
				s.annotate(s.g, topsv1.AnnotationPaused, "true")
				s.api.Remove(simNodeKey(node))
				s.works(s.a, time.Minute)
				s.addNode(s.host(node))
				s.setMachine(node, tt.machine)
				s.works(s.a, time.Minute)
				if s.countsAsFailed(node) != tt.fails {
					s.violate("%s counts as failed: %v", node, !tt.fails)
				}
			})
		})
	}
}

func (s *simSchedule) countsAsFailed(node string) bool {
	for _, f := range s.failedNodes() {
		if f.Node == node {
			return true
		}
	}
	return false
}

func (s *simSchedule) setMachine(node, id string) {
	simapi.Edit(s.api, simNodeKey(node), func(n *corev1.Node) { n.Status.NodeInfo.MachineID = id })
}

func TestANodeThatReturnsDoesNotJumpItsWave(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.putPolicy(func(p *topsv1.UpgradePolicySpec) {
			p.Waves = []topsv1.Wave{{Name: "first", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"first": "true"}}, Approval: topsv1.ApprovalManual}}
		})
		first, other := s.hosts[0].name, s.hosts[1]
		simapi.Edit(s.api, simNodeKey(first), func(n *corev1.Node) { n.Labels["first"] = "true" })
		s.gets(0, "good-1")
		s.power(other, false)
		s.works(s.a, 2*time.Minute)
		s.power(other, true)
		other.podsFirst, other.podsAfter = false, 20*time.Second
		s.works(s.a, 5*time.Minute)
		if s.rolloutOf(s.g.id).Status.Touched > 0 {
			s.violate("a node starts before its wave is approved")
		}
		s.isThere(s.podOf(0, other.name).UID)
	})
}

func TestANodeWhosePodIsMissingForAMomentDoesNotJumpItsWave(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.putPolicy(func(p *topsv1.UpgradePolicySpec) {
			p.UnavailableSeconds = ptr.To[int32](60)
			p.Waves = []topsv1.Wave{{Name: "first", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"first": "true"}}, Approval: topsv1.ApprovalManual}}
		})
		simapi.Edit(s.api, simNodeKey(s.hosts[0].name), func(n *corev1.Node) { n.Labels["first"] = "true" })
		s.getsAll("good-1")
		s.works(s.a, time.Minute)
		other := s.hosts[1].name
		plugin := s.podOf(1, other).UID
		for range 2 {
			s.api.Remove(simapi.KeyOf(s.podOf(0, other)))
			for range 3 { // the DaemonSet controller is slow
				s.now = s.now.Add(5 * time.Second)
				s.a.sees()
				s.a.passes(s.g.id)
			}
			s.works(s.a, time.Minute) // long enough for a state that is remembered to be old
		}
		s.isThere(plugin)
		if s.rolloutOf(s.g.id).Status.Touched > 0 {
			s.violate("a node starts before its wave is approved")
		}
	})
}

// putPolicy gives the group an UpgradePolicy.
func (s *simSchedule) putPolicy(change func(*topsv1.UpgradePolicySpec)) {
	p := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "careful"}}
	change(&p.Spec)
	s.api.Put(p)
	s.annotate(s.g, topsv1.AnnotationUpgradePolicy, p.Name)
}

func TestADeletionThatIsDeniedCostsNoSlotAfterTheDeadline(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		s.a.sees()
		denied := s.hosts[0].name
		s.refused = func(c *simCall) bool { return c.verb == "delete" && c.key == simapi.KeyOf(s.podOf(0, denied)) }
		others := func() bool { return s.atTarget(s.g, s.hosts[1].name) && s.atTarget(s.g, s.hosts[2].name) }
		s.worksUntil(s.a, "the other nodes are updated", rollout.DefaultDeadlines.Progress+10*time.Minute, others)
		s.works(s.a, rollout.DefaultDeadlines.Progress)
		s.noneFailed("with a denied deletion")
		w := s.rolloutOf(s.g.id).Status.Waiting
		if len(w) != 1 || w[0].Reason != string(rollout.ReasonDeletionDenied) {
			s.violate("nothing says why the node waits: %v", w)
		}
		s.refused = nil
		s.arrives(s.a)
	})
}

func TestAWindowOpensAgainAfterASlowNode(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.putPolicy(func(p *topsv1.UpgradePolicySpec) {
			p.Window = &topsv1.MaintenanceWindow{Start: "00:00", DurationMinutes: 20, TimeZone: "UTC"}
			p.ProgressDeadlineSeconds = new(int32)
			*p.ProgressDeadlineSeconds = 7200
		})
		s.gets(0, "good-1")
		for _, h := range s.hosts {
			s.setFinalizer(simapi.KeyOf(s.podOf(0, h.name)), true)
		}
		node := s.begins()
		s.works(s.a, time.Hour)
		for _, h := range s.hosts {
			s.setFinalizer(simapi.KeyOf(s.podOf(0, h.name)), false)
		}
		s.worksUntil(s.a, "the slow node is updated", time.Hour, func() bool { return s.atTarget(s.g, node) })
		s.worksUntil(s.a, "every node is updated", 72*time.Hour, s.arrived)
	})
}

func TestAHaltForNodesThatAVersionKilledOutlivesTheChangeOfAnotherComponent(t *testing.T) {
	for name, image := range map[string]string{"when the pod was available": "fuse-20s", "before it was": "fuse-0s"} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
				s.gets(1, "good-1") // comes first
				s.gets(0, image)
				s.putPolicy(func(p *topsv1.UpgradePolicySpec) {
					p.Failure = &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(1))}
				})
				s.worksUntil(s.a, "the rollout halts", time.Hour, func() bool { s.doDue(); return s.halted() })
				s.gets(1, "good-2")
				s.startsNothing("the halt is for another component")
				if !s.halted() {
					s.violate("the halt is forgotten")
				}
				s.gets(0, "good-2")
				s.worksUntil(s.a, "the others are updated", time.Hour, func() bool {
					return !slices.ContainsFunc(s.hosts, func(h *simHost) bool { return h.up && !s.atTarget(s.g, h.name) })
				})
			})
		})
	}
}

func TestAHaltOutlivesAManagerWhoseCacheIsOld(t *testing.T) {
	for name, seen := range map[string][]string{
		"of revisions":           {simSets, simPods, simNodes, simRollouts},
		"of all but the rollout": {simRollouts},
	} {
		t.Run(name, func(t *testing.T) {
			schedule(t, simTrio, func(s *simSchedule) {
				s.halts(2)
				s.b.sees(seen...)
				s.b.passes(s.g.id)
				if !s.halted() {
					s.violate("the halt is forgotten")
				}
				s.gets(2, "good-2")
				s.arrives(s.b)
			})
		})
	}
}
