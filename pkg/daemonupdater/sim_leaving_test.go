package daemonupdater

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Nodes that leave a group while they have a slot, and places where Kubernetes makes no
// successor of a pod.

func TestANodeThatLeavesTheGroupGivesItsSlotBack(t *testing.T) {
	ways := map[string]func(s *simSchedule, node string){
		"its label is taken away": func(s *simSchedule, node string) {
			simapi.Edit(s.api, simNodeKey(node), func(n *corev1.Node) { delete(n.Labels, "gcu") })
		},
		"a taint evicts its pods": func(s *simSchedule, node string) {
			simapi.Edit(s.api, simNodeKey(node), func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/repair", Effect: corev1.TaintEffectNoExecute})
			})
		},
		"its Node object is deleted": func(s *simSchedule, node string) { s.api.Remove(simNodeKey(node)) },
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.placeOn("gcu")
				s.gets(0, "hang-1")
				node := s.begins()
				s.works(s.a, time.Minute)
				leave(s, node)
				s.works(s.a, time.Minute)
				if r := s.rolloutOf(s.g.id); slices.ContainsFunc(simSlots(r), func(n topsv1.NodeSlot) bool { return n.Node == node }) {
					s.violate("%s left and has a slot", node)
				}
				s.works(s.a, 2*rollout.DefaultDeadlines.Lost)
				if slices.ContainsFunc(s.failedNodes(), func(f topsv1.NodeNote) bool { return f.Node == node }) {
					s.violate("%s left and counts as failed", node)
				}
			})
		})
	}
}

// The driver tolerates every taint, so it is all that the nodes should run, and it works: the pods that the taints evict show nothing
// any more.
func TestAVersionThatNoNodeShouldRunKeepsNoOtherFromBeingGood(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		simapi.Edit(s.api, s.g.sets[0], func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})
		s.gets(1, "hang-1")
		for _, h := range s.hosts {
			_, _ = s.api.Delete(simapi.KeyOf(s.podOf(1, h.name)), nil) // it exists
		}
		s.works(s.a, 5*time.Minute)
		is := func() bool {
			st := s.rolloutOf(s.g.id).Status
			return st.LastKnownGood != nil && st.LastKnownGood.Revision == st.Revision
		}
		if is() {
			s.violate("a version that hangs is known to be good")
		}
		for _, h := range s.hosts {
			simapi.Edit(s.api, simNodeKey(h.name), func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/repair", Effect: corev1.TaintEffectNoExecute})
			})
		}
		s.a.sees()
		s.a.passes(s.g.id)
		if !is() {
			s.violate("the nodes run all that they should run, and that is not known to be good")
		}
	})
}

func TestADeletionThatComesLateFindsNoPodOnANodeThatWasRegisteredAgain(t *testing.T) {
	for name, again := range map[string]bool{"when it is seen at once": true, "when its Node was missing for a moment": false} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.gets(0, "good-1")
				s.a.sees()
				s.a.sleepsBeforeDeleting(s.g.id)
				node := s.inFlight(1)
				was := s.podOf(0, node).UID
				s.api.Remove(simNodeKey(node))
				decides := func() {
					for range 3 {
						s.b.sees()
						s.b.passes(s.g.id)
					}
				}
				if !again {
					decides()
				}
				s.addNode(s.host(node)) // before the garbage collector of pods looks
				decides()
				s.a.drive()
				s.isThere(was)
				s.arrives(s.b)
			})
		})
	}
}

// placeOn gives the nodes a label, and has the DaemonSets of the group select it.
func (s *simSchedule) placeOn(label string) {
	for _, h := range s.hosts {
		simapi.Edit(s.api, simNodeKey(h.name), func(n *corev1.Node) { n.Labels[label] = "true" })
	}
	for _, key := range s.g.sets {
		simapi.Edit(s.api, key, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{label: "true"} })
	}
	s.a.sees()
	s.a.passes(s.g.id)
}

func TestAPodIsNotDeletedWhereKubernetesMakesNoSuccessor(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		tainted := s.hosts[0].name
		simapi.Edit(s.api, simNodeKey(tainted), func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule})
		})
		was := s.podOf(0, tainted).UID
		s.gets(0, "good-1")
		s.worksUntil(s.a, "the others are updated", time.Hour, func() bool {
			return !slices.ContainsFunc(s.hosts[1:], func(h *simHost) bool { return !s.atTarget(s.g, h.name) })
		})
		s.works(s.a, 2*rollout.DefaultDeadlines.Lost)
		s.isThere(was)
		s.noneFailed("with a tainted node")
		r := s.rolloutOf(s.g.id)
		if len(r.Status.InFlight) > 0 {
			s.violate("the tainted node has a slot")
		}
		if !slices.ContainsFunc(r.Status.Waiting, func(w topsv1.WaitingNote) bool { return w.Reason == "NoSuccessor" }) {
			s.violate("nothing says why the node waits: %v", r.Status.Waiting)
		}
		simapi.Edit(s.api, simNodeKey(tainted), func(n *corev1.Node) { n.Spec.Taints = nil })
		s.arrives(s.a)
	})
}

func TestANodeWhoseNewPodIsNotInTheCacheHasNotLeftTheGroup(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.gets(0, "good-1")
		node := s.begins()
		s.waits("the old pod is gone", func() bool { return s.podOf(0, node) == nil })
		s.a.sees()
		s.waits("the new one is there", func() bool { return s.podOf(0, node) != nil })
		simapi.Edit(s.api, simNodeKey(node), func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/dedicated", Effect: corev1.TaintEffectNoSchedule})
		})
		s.a.seesAllBut(simPods)
		s.a.passes(s.g.id)
		if r := s.rolloutOf(s.g.id); !slices.ContainsFunc(r.Status.InFlight, func(n topsv1.NodeSlot) bool { return n.Node == node }) {
			s.violate("%s has lost its slot", node)
		}
		s.arrives(s.a)
	})
}

// A group is none for a moment without a pass, in which no event of a node is about it: its nodes are read again after.
func TestANodeThatIsTaintedWhileItsGroupHasNoStrategyIsNotStarted(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		s.gets(0, "good-1")
		s.works(s.a, time.Minute)
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "")
		s.a.sees()
		for _, h := range s.hosts {
			simapi.Edit(s.api, simNodeKey(h.name), func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/repair", Effect: corev1.TaintEffectNoSchedule})
			})
		}
		s.a.sees()
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, string(daemonset.AdvancedRollingUpdate))
		s.annotate(s.g, topsv1.AnnotationPaused, "false")
		s.a.sees()
		s.a.passes(s.g.id)
		if n := len(s.rolloutOf(s.g.id).Status.InFlight); n > 0 {
			s.violate("%d nodes are started on which no pod would be made again", n)
		}
	})
}

// What is settled while a Node does not exist is settled without it. Registered again with a pod that terminates, it joins like a new
// node; with one that runs, it has an earlier revision, and the target is not settled any more.
func TestATargetThatWasSettledWithoutANodeIsSettledWhenThatIsRegisteredAgainUnlessAPodRunsThere(t *testing.T) {
	for name, runs := range map[string]bool{"its pod runs": true, "its pod terminates": false} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				gated(func(*simWorld) {})(s.simWorld)
				s.worksUntil(s.a, "what they have is known as good", time.Hour, func() bool { return s.rolloutOf(s.g.id).Status.LastKnownGood != nil })
				gone := s.hosts[2]
				s.power(gone, false)
				s.works(s.a, time.Minute)
				s.gets(0, "good-1")
				s.worksUntil(s.a, "the others are updated", time.Hour, func() bool { return s.atTarget(s.g, "n00") && s.atTarget(s.g, "n01") })
				s.api.Remove(simNodeKey(gone.name))
				die := func() { _, _ = s.api.Delete(simapi.KeyOf(s.podOf(0, gone.name)), nil) } // it exists
				if !runs {
					die()
				}
				settled := func() bool {
					s.now = s.now.Add(reportInterval) // without the garbage collector of pods
					s.a.sees()
					s.a.passes(s.g.id)
					return s.rolloutOf(s.g.id).Status.Settled[0].Hash != ""
				}
				if !settled() {
					s.violate("the target is not settled, though every node has it")
				}
				s.power(gone, true)
				s.addNode(gone)
				if settled() == runs {
					s.violate("settled: %v", !runs)
				}
				if runs {
					die()
				}
				held := s.held
				s.waits("its pod is replaced", func() bool { pod := s.podOf(0, gone.name); return pod != nil && pod.DeletionTimestamp == nil })
				if waits := s.held > held; waits != runs {
					s.violate("the new pod waits at the gate: %v", waits)
				}
				s.arrives(s.a)
			})
		})
	}
}

// The manager that settles the target sees a node as it was while a taint kept pods off it, and after that without its pod, which died
// when the taint was gone: the list of Nodes and that of pods are not of the same time. The node joins like a new one.
func TestATargetIsSettledWithoutANodeThatSeemsTaintedAndHasNoPod(t *testing.T) {
	for name, comes := range map[string]func(s *simSchedule, next func() bool, settle func()){
		"when its next pod is there already": func(s *simSchedule, next func() bool, settle func()) {
			s.b.seesAllBut(simNodes)
			s.waits("a pod waits at the gate", next)
			settle()
			released := s.opened
			s.worksUntil(s.b, "the pod leaves the gate", time.Minute, func() bool { return s.opened > released })
		},
		"before its next pod is created": func(s *simSchedule, next func() bool, settle func()) {
			s.b.seesAllBut(simNodes)
			settle()
			s.waits("a pod is created", next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				gated(func(*simWorld) {})(s.simWorld)
				s.worksUntil(s.a, "a good revision is known", time.Hour, func() bool { return s.rolloutOf(s.g.id).Status.LastKnownGood != nil })
				s.leader = s.b
				s.b.passes(s.g.id)
				tainted := s.hosts[0].name
				dies := func() { s.api.Remove(simapi.KeyOf(s.podOf(0, tainted))) }
				next := func() bool { return s.podOf(0, tainted) != nil }
				dies()
				s.waits("it has a pod, with the gate", next)
				s.gets(0, "good-1")
				s.taintAs(tainted, true)
				s.b.sees(simNodes)
				s.worksUntil(s.a, "the others are updated", time.Hour, func() bool {
					return len(s.rolloutOf(s.g.id).Status.InFlight) == 0 && !slices.ContainsFunc(s.hosts[1:], func(h *simHost) bool { return !s.atTarget(s.g, h.name) })
				})
				s.taintAs(tainted, false)
				dies()
				comes(s, next, func() {
					s.b.passes(s.g.id)
					if r := s.rolloutOf(s.g.id); r.Status.Settled[0].Hash != r.Status.Targets[0].Hash {
						s.violate("the target is not settled: %v", r.Status)
					}
				})
			})
		})
	}
}

// taintAs keeps pods off a node, or does not.
func (s *simSchedule) taintAs(node string, tainted bool) {
	simapi.Edit(s.api, simNodeKey(node), func(n *corev1.Node) {
		n.Spec.Taints = nil
		if tainted {
			n.Spec.Taints = []corev1.Taint{{Key: simForeignTaint + "busy", Effect: corev1.TaintEffectNoSchedule}}
		}
	})
}
