package daemonupdater

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simAsked is a pod that a node requested to be replaced, and the revision it was requested for;
// "" by an older agent.
type simAsked struct {
	pod      types.UID
	revision string
}

// agreed reports whether a node requested the replacement of a pod by a revision, or by another
// one for which the pass saw that it was started.
func (w *simWorld) agreed(pass *simPass, pod *corev1.Pod, revision string) bool {
	if w.requests[simAsked{pod.UID, revision}] || w.requests[simAsked{pod.UID, ""}] {
		return true
	}
	u := pass.seen.upgrades[pod.Spec.NodeName]
	return u != nil && slices.ContainsFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool {
		return r.Pod.UID == pod.UID && slices.ContainsFunc(u.Status.Tasks, func(t topsv1.UpgradeTask) bool {
			return t.RequestID == r.ID && t.State == topsv1.TaskRunning
		})
	})
}

// ask lets a node request the replacement of a pod drawn at random.
func (w *simWorld) ask() {
	if pods := w.setPods(); len(pods) > 0 {
		w.askFor(pods[w.rng.IntN(len(pods))])
	}
}

// askFor acts as the node agent: it adds a request for a pod that needs an upgrade, or drops the
// answered ones. Some agents are older and do not say for which revision.
func (w *simWorld) askFor(pod *corev1.Pod) {
	need := daemonset.NeedUpgrade(pod)
	if need == nil || need.Status != corev1.ConditionTrue {
		return
	}
	ref := simOwner(pod)
	newest := strings.TrimPrefix(need.Message, topsv1.PodNeedUpgradeMessagePrefix)
	id, revision := string(pod.UID)+newest, newest
	if w.seed%4 == 3 && pod.Spec.NodeName == "n00" {
		revision = ""
	}
	simapi.Edit(w.api, simapi.Key{Kind: simUpgrades, Name: pod.Spec.NodeName}, func(u *topsv1.NodeUpgrade) {
		answered := map[string]bool{}
		for _, t := range u.Status.Tasks {
			answered[t.RequestID] = t.State.Final()
		}
		u.Status.Requests = slices.DeleteFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == id && answered[id] })
		if len(u.Status.Requests) > 8 {
			u.Status.Requests = slices.DeleteFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool { return answered[r.ID] })
		}
		if slices.ContainsFunc(u.Status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == id }) {
			return
		}
		w.requests[simAsked{pod.UID, revision}] = true
		if w.ops != nil {
			w.ops.asked[pod.Spec.NodeName] = true
		}
		w.say("node %s asks for %s at %q", u.Name, pod.Name, revision)
		u.Status.Requests = append(u.Status.Requests, topsv1.UpgradeRequest{
			ID: id, Revision: revision, RequestTime: w.host(pod.Spec.NodeName).clock(w),
			DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: ref.Name, UID: ref.UID},
			Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	})
}

// asks lets the agent of a node request the replacement of its first pod.
func (s *simSchedule) asks(node string) {
	s.askFor(s.podOf(0, node))
	s.a.sees()
	s.a.passes(s.g.id)
}

// answered returns the last answer to a node, "" if there is none.
func (s *simSchedule) answered(node string) string {
	u := simapi.Get[*topsv1.NodeUpgrade](s.api, simapi.Key{Kind: simUpgrades, Name: node})
	if u == nil || len(u.Status.Tasks) == 0 {
		return ""
	}
	last := u.Status.Tasks[len(u.Status.Tasks)-1]
	return string(last.State) + " " + last.Reason
}

// haltsUnderOTA brings a group under OTA to a halt at a bad version, for which all nodes asked,
// and returns the node that waits for the end of the halt, not for the budget.
func (s *simSchedule) haltsUnderOTA() (waits string) {
	s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
	s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "2")
	s.gets(0, "crash-1")
	s.works(s.a, time.Minute)
	for _, h := range s.hosts {
		s.asks(h.name)
	}
	s.worksUntil(s.a, "the rollout halts", time.Hour, s.halted)
	s.annotate(s.g, topsv1.AnnotationMaxUnavailable, "3")
	s.works(s.a, time.Minute)
	for _, h := range s.hosts {
		if s.answered(h.name) == "Waiting Halted" {
			waits = h.name
		}
	}
	if waits == "" {
		s.violate("no node waits for the end of the halt")
		return s.hosts[2].name
	}
	return waits
}

func TestAHaltEndedByARevisionDropsRequestsForTheOneBefore(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		node := s.haltsUnderOTA()
		was := s.podOf(0, node).UID
		s.gets(0, "good-2")
		s.works(s.a, 5*time.Minute)
		if s.halted() {
			s.violate("the halt has not ended")
		}
		s.isThere(was)
		if got := s.answered(node); got != "Failed RevisionChanged" {
			s.violate("%s is answered %q", node, got)
		}
		s.asks(node)
		s.worksUntil(s.a, "the node that asked again is updated", time.Hour, func() bool { return s.atTarget(s.g, node) })
	})
}

func TestARequestSurvivesTheChangeOfAnotherComponent(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		s.gets(0, "good-1")
		s.works(s.a, time.Minute)
		s.annotate(s.g, topsv1.AnnotationPaused, "true")
		node := s.hosts[0].name
		s.asks(node)
		was := s.podOf(1, node).UID
		s.gets(1, "good-2")
		s.works(s.a, time.Minute)
		if got := s.answered(node); got != "Waiting Paused" {
			s.violate("%s is answered %q", node, got)
		}
		s.annotate(s.g, topsv1.AnnotationPaused, "")
		s.worksUntil(s.a, "the driver is replaced", time.Hour, func() bool { return s.replaced(node, "good-1") == 1 })
		s.isThere(was)
	})
}

func TestANodeThatWasStartedForARevisionGoesOnWhenThereIsAnother(t *testing.T) {
	schedule(t, []string{"driver", "plugin"}, func(s *simSchedule) {
		s.annotate(s.g, topsv1.AnnotationUpdateStrategy, "OTA")
		s.getsAll("good-1")
		s.works(s.a, time.Minute)
		node := s.hosts[0].name
		s.askFor(s.podOf(0, node))
		s.askFor(s.podOf(1, node))
		s.begins()
		s.waits("one pod is away", func() bool { return !s.nodeAvailable(s.g.sets, node) })
		s.getsAll("good-2")
		s.worksUntil(s.a, "both pods are replaced", time.Hour, func() bool {
			return s.replaced(node, "good-1")+s.replaced(node, "good-2") == 2
		})
	})
}
