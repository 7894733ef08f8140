package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/need"
)

// The gate of config/gate, with the real DaemonSet controller: however a pod is made, its node keeps the version
// that it had until it is its turn.

// withGate installs the operator with the gate, until the test ends.
func withGate(t *testing.T) (*stage, context.Context) {
	t.Helper()
	s, ctx := enterAlone(t)
	if _, err := s.Kubectl(ctx, "get", "mutatingadmissionpolicies.v1.admissionregistration.k8s.io"); err != nil {
		need.Skip(t, "the gate, which needs Kubernetes 1.36 or later: "+err.Error())
	}
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	s.kubectl(ctx, t, "apply", "--server-side", "-k", "config/gate")
	t.Cleanup(func() {
		if _, err := s.Kubectl(context.WithoutCancel(ctx), "delete", "--ignore-not-found", "-k", "config/gate"); err != nil {
			t.Error(err)
		}
	})
	return s, ctx
}

// settles waits until every node has the newest revision, and the gate knows it.
func (f *fixture) settles(ctx context.Context) {
	f.t.Helper()
	newest := f.newestRevision(ctx)
	f.reaches(ctx, "settled", func(s *topsv1.DaemonRolloutStatus) bool {
		return s.LastKnownGood != nil && len(s.Settled) == 1 && s.Settled[0].Hash == newest
	})
}

// closes waits until the gate is closed to the newest revision.
func (f *fixture) closes(ctx context.Context) {
	f.t.Helper()
	newest := f.newestRevision(ctx)
	f.reaches(ctx, "closed", func(s *topsv1.DaemonRolloutStatus) bool {
		return len(s.Targets) == 1 && s.Targets[0].Hash == newest && len(s.Settled) == 1 && s.Settled[0].Hash != newest
	})
}

// podOn returns the pod on a node.
func (f *fixture) podOn(ctx context.Context, node string) *corev1.Pod {
	f.t.Helper()
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Spec.NodeName == node && pods[i].DeletionTimestamp == nil {
			return &pods[i]
		}
	}
	f.t.Fatalf("no pod of %s is on %s", f.name, node)
	return nil
}

// dies deletes the pod of a node, and waits until another one is Ready there. It is the only one, and has an image.
func (f *fixture) dies(ctx context.Context, node, image string) {
	f.t.Helper()
	old := f.podOn(ctx, node)
	if err := f.stage.Client.Delete(ctx, old); err != nil {
		f.t.Fatal(err)
	}
	f.comesBack(ctx, node, image, old)
}

func (f *fixture) comesBack(ctx context.Context, node, image string, old *corev1.Pod) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		var there []corev1.Pod
		for _, pod := range pods {
			if daemonset.NodeName(&pod) == node {
				there = append(there, pod)
			}
		}
		if len(there) != 1 || old != nil && there[0].UID == old.UID || !isReady(&there[0]) {
			return fmt.Errorf("%d pods of %s are on %s, or not Ready", len(there), f.name, node)
		}
		if got := there[0].Spec.Containers[0].Image; got != image {
			f.t.Errorf("%s has %s, want %s", node, got, image)
		}
		return nil
	})
}

func TestAPodThatDiesComesBackAsItWasUntilItsNodeIsUpgraded(t *testing.T) {
	s, ctx := withGate(t)
	manager := s.startManager(ctx, t, "--gate")
	f := newDaemonSet(ctx, t, s, "gated", rolling("1"))
	f.settles(ctx)
	f.dies(ctx, s.nodes[0], "app:1")

	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Annotations[topsv1.AnnotationPaused] = "true"
		ds.Spec.Template.Spec.Containers[0].Image = "app:2"
	})
	f.closes(ctx)
	f.dies(ctx, s.nodes[0], "app:1") // paused
	f.dies(ctx, s.nodes[0], "app:1") // one that the manager created

	t.Run("a node that joins gets the last known good version", func(t *testing.T) { f.joins(ctx, s.nodes[1]) })

	t.Run("what dies while no manager runs waits for one", func(t *testing.T) {
		if err := manager.Stop(); err != nil {
			t.Fatal(err)
		}
		old := f.podOn(ctx, s.nodes[2])
		if err := s.Client.Delete(ctx, old); err != nil {
			t.Fatal(err)
		}
		f.waitsAtTheGate(ctx, s.nodes[2])
		s.startManager(ctx, f.t, "--gate")
		f.comesBack(ctx, s.nodes[2], "app:1", old)
	})

	t.Run("a node is held", func(t *testing.T) {
		held := s.nodes[3]
		s.create(ctx, t, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: held, Annotations: map[string]string{topsv1.AnnotationHold: "2026-01-01T00:00:00Z test"}}})
		f.change(ctx, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationPaused) })
		f.reaches(ctx, "at all but the held node", func(st *topsv1.DaemonRolloutStatus) bool {
			return int(st.Updated) == stageNodes-1 && len(st.InFlight) == 0
		})
		f.dies(ctx, held, "app:1")
		f.dies(ctx, s.nodes[0], "app:2")
		s.forget(ctx, t, held)
	})
	f.complete(ctx, "app:2", stageNodes)
	f.settles(ctx)
	f.dies(ctx, s.nodes[4], "app:2")
}

func TestAPodThatDiesUnderOTAOrInAHaltComesBackAsItWas(t *testing.T) {
	s, ctx := withGate(t)
	s.startManager(ctx, t, "--gate")
	t.Run("OTA not asked", func(t *testing.T) {
		f := newDaemonSet(ctx, t, s, "gated-ota", ota())
		f.settles(ctx)
		f.setImage(ctx, "app:2")
		f.closes(ctx)
		f.dies(ctx, s.nodes[0], "app:1")
	})
	t.Run("a person goes back at the node, and forth again", func(t *testing.T) {
		f := newDaemonSet(ctx, t, s, "gated-person", ota())
		f.settles(ctx)
		f.setImage(ctx, "app:2")
		f.allHave(ctx, corev1.ConditionTrue)
		node, before := s.nodes[1], f.uids(ctx)
		s.startAgents(ctx, t, node)
		for _, step := range []struct{ what, image string }{{"upgrade", "app:2"}, {"rollback", "app:1"}, {"upgrade", "app:2"}} {
			old := f.podOn(ctx, node)
			delete(before, old.UID)
			f.eventually(ctx, func() error { // the agent may not know yet that the step before has ended
				code, text, err := postOnce(ctx, s.agents.Of(node).URL+"/v1/components/"+f.name+"/"+step.what)
				if err == nil && code != http.StatusAccepted {
					err = fmt.Errorf("%s is answered with %d %s", step.what, code, text)
				}
				return err
			})
			f.comesBack(ctx, node, step.image, old)
		}
		f.undisturbed(ctx, before)
	})
	t.Run("a halt", func(t *testing.T) {
		f := newDaemonSet(ctx, t, s, "gated-halt", rolling("2"))
		f.settles(ctx)
		f.change(ctx, func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Containers[0].Image = "app:2"
			ds.Spec.Template.Labels[harness.BehaviorLabel] = "crash-loop"
		})
		halted := f.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool { return reasonOf(st, topsv1.RolloutHalted) == "Halted" })
		failed := map[string]bool{}
		for _, n := range halted.Status.Failed {
			failed[n.Node] = true
		}
		for _, node := range s.nodes {
			if !failed[node] {
				f.dies(ctx, node, "app:1")
				return
			}
		}
		t.Error("every node has failed")
	})
}

// joins removes a node from the DaemonSet, and lets it join as another Node object.
func (f *fixture) joins(ctx context.Context, name string) {
	f.t.Helper()
	var node corev1.Node
	if err := f.stage.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		f.t.Fatal(err)
	}
	if err := f.stage.Client.Delete(ctx, node.DeepCopy()); err != nil {
		f.t.Fatal(err)
	}
	f.eventually(ctx, func() error { // the garbage collector of pods comes by every 20 seconds
		pods, err := f.pods(ctx)
		for i := range pods {
			if daemonset.NodeName(&pods[i]) == name {
				err = errors.Join(err, fmt.Errorf("pod %s is left", pods[i].Name),
					client.IgnoreNotFound(f.stage.Client.Delete(ctx, &pods[i], client.GracePeriodSeconds(0))))
			}
		}
		return err
	})
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity}}
	if err := f.stage.Client.Create(ctx, again); err != nil {
		f.t.Fatal(err)
	}
	f.comesBack(ctx, name, "app:1", nil)
}

// waitsAtTheGate waits until the pod of a node is at the gate.
func (f *fixture) waitsAtTheGate(ctx context.Context, node string) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			if daemonset.NodeName(&pods[i]) == node && daemonset.AwaitsUpgrade(&pods[i]) {
				return nil
			}
		}
		return fmt.Errorf("no pod of %s waits for %s", f.name, node)
	})
}
