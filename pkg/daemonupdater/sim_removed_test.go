package daemonupdater

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Components that leave their nodes one by one, and come back under another name (docs/adr/0014).

// runsNothing reports whether the scheduler leaves a pod where it is: it waits at a gate, or for the pod of a
// DaemonSet that must not run beside its own. That holds for both, whichever names the other.
func (w *simWorld) runsNothing(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	ds := w.setOf(pod)
	return daemonset.IsPlaceholder(pod) || ds != nil && slices.ContainsFunc(w.setPods(), func(o *corev1.Pod) bool {
		rival := w.setOf(o)
		return rival != nil && o.Spec.NodeName == daemonset.NodeName(pod) && daemonset.AreRivals(ds, rival)
	})
}

func (w *simWorld) setOf(pod *corev1.Pod) *appsv1.DaemonSet {
	return simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, pod.Namespace, simOwner(pod).Name))
}

// leaves lets the pods of a DaemonSet of the group leave, or has them come back.
func (s *simSchedule) leaves(set int, leaves bool) {
	s.say("%s leaves: %t", s.g.sets[set].Name, leaves)
	simapi.Edit(s.api, s.g.sets[set], func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.SchedulingGates = nil
		if leaves {
			ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		}
		ds.Generation++
	})
}

// succeed makes a DaemonSet that takes over from another one of the group.
func (s *simSchedule) succeed(set int, name string) {
	old := simapi.Get[*appsv1.DaemonSet](s.api, s.g.sets[set])
	ds := s.newSet(name, "good-0")
	ds.Labels, ds.OwnerReferences, ds.Annotations = old.Labels, old.OwnerReferences, maps.Clone(old.Annotations)
	ds.Annotations[topsv1.AnnotationSuccessorOf] = old.Namespace + "/" + old.Name + ";hash"
	s.addSet(ds)
	s.g.sets, s.g.images = append(s.g.sets, simapi.KeyOf(ds)), append(s.g.images, []string{"good-0"})
	s.nameSets(s.g)
	s.say("%s takes over from %s", name, old.Name)
}

// runsOn returns the pods of a DaemonSet that are scheduled to a node.
func (s *simSchedule) runsOn(set int, node string) []*corev1.Pod {
	return slices.DeleteFunc(s.podsOn(s.g.sets[set], node), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
}

// handedOver reports whether only one of two DaemonSets runs on all nodes, and is available there.
func (s *simSchedule) handedOver(from, to int) bool {
	return !slices.ContainsFunc(s.hosts, func(h *simHost) bool {
		return len(s.runsOn(from, h.name)) > 0 || to >= 0 && len(s.runsOn(to, h.name)) != 1 || !s.nodeAvailable(s.g.sets, h.name)
	})
}

// checkApart checks that no pods of two DaemonSets run on a node at once.
func (s *simSchedule) checkApart(a, b int) {
	for _, h := range s.hosts {
		if len(s.runsOn(a, h.name)) > 0 && len(s.runsOn(b, h.name)) > 0 {
			s.violate("%s and %s run on %s at once", s.g.sets[a].Name, s.g.sets[b].Name, h.name)
		}
	}
}

// disturbedUntil plays until something holds, with managers that take turns, lag and are restarted, and
// nodes that go offline for a while.
func (s *simSchedule) disturbedUntil(rng *rand.Rand, what string, holds func() bool) {
	for step := 0; !holds() && !s.failed(); step++ {
		if step > 3000 {
			s.violate("it never comes to that: %s: %s", what, s.describe())
			return
		}
		s.goesBy(time.Duration(1+rng.IntN(8)) * time.Second)
		m := []*simManager{s.a, s.b}[rng.IntN(2)]
		switch h := s.hosts[rng.IntN(len(s.hosts))]; {
		case rng.IntN(40) == 0 && h.up:
			s.power(h, false)
			h.upAt = s.now.Add(time.Duration(30+rng.IntN(300)) * time.Second)
		case rng.IntN(40) == 0:
			m.restart()
		case rng.IntN(3) == 0:
			m.sees([]string{simPods, simSets, simNodes, simRollouts, simRevisions}[rng.IntN(5)])
		default:
			m.sees()
		}
		m.passes(s.g.id)
		s.checkApart(0, len(s.g.sets)-1)
	}
	s.say("%s", what)
}

func TestAComponentChangesItsNameNodeByNode(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			schedule(t, []string{"old", "plugin"}, func(s *simSchedule) {
				s.succeed(0, "young")
				s.disturbedUntil(rng, "the successor waits everywhere", func() bool { return rng.IntN(20) == 0 })
				s.leaves(0, true)
				turns := rng.IntN(120)
				s.disturbedUntil(rng, "some nodes are done", func() bool { turns--; return turns < 0 || s.handedOver(0, 2) })
				if rng.IntN(2) == 0 { // the spec goes back: first the old one is to run again
					s.leaves(0, false)
					s.disturbedUntil(rng, "a moment passes", func() bool { return rng.IntN(2) == 0 })
					s.leaves(2, true)
					s.disturbedUntil(rng, "the old one runs again", func() bool { return s.handedOver(2, 0) })
					return
				}
				if rng.IntN(2) == 0 {
					s.gets(2, "good-1")
				}
				s.disturbedUntil(rng, "the successor runs everywhere", func() bool { return s.handedOver(0, 2) })
			})
		})
	}
}

// Under OTA the person at the node asks for the pod that leaves; the one that comes needs no request.
func TestUnderOTAAComponentLeavesWhereThatIsRequested(t *testing.T) {
	schedule(t, []string{"old", "plugin"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		ask := func(from, to int) {
			s.works(s.a, 10*time.Minute)
			for _, h := range s.hosts {
				if len(s.runsOn(from, h.name)) == 0 {
					s.violate("nobody on %s asked", h.name)
				}
				if pods := s.runsOn(from, h.name); len(pods) > 0 {
					s.askFor(pods[0])
				}
			}
			s.worksUntil(s.a, "it has left", time.Hour, func() bool { return s.handedOver(from, to) })
			s.checkApart(0, len(s.g.sets)-1)
		}
		s.succeed(0, "young")
		s.leaves(0, true)
		ask(0, 2)
		s.leaves(0, false)
		s.leaves(2, true)
		ask(2, 0)
		s.leaves(0, true)
		ask(0, -1)
	})
}

func TestAComponentIsRemovedNodeByNode(t *testing.T) {
	schedule(t, []string{"old", "plugin"}, func(s *simSchedule) {
		s.leaves(0, true)
		s.worksUntil(s.a, "it is gone", time.Hour, func() bool { return s.handedOver(0, -1) })
	})
}

// A version of the successor that was replaced before it could start never starts.
func TestASuccessorThatWaitsGetsItsNewVersionFirst(t *testing.T) {
	schedule(t, []string{"old", "plugin"}, func(s *simSchedule) {
		s.succeed(0, "young")
		s.works(s.a, time.Minute)
		s.leaves(0, true)
		s.gets(2, "good-1")
		s.worksUntil(s.a, "the successor runs everywhere", time.Hour, func() bool {
			for _, h := range s.hosts {
				for _, pod := range s.runsOn(2, h.name) {
					if pod.Spec.Containers[0].Image != "good-1" {
						s.violate("%s runs %s", h.name, pod.Spec.Containers[0].Image)
					}
				}
			}
			return s.handedOver(0, 2)
		})
	})
}
