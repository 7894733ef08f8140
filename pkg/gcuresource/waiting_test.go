package gcuresource

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/world"
)

// A scheduler that moves in the edit that upgrades the driver is there until the driver runs again, and then there.
func TestASchedulerMovesAfterTheUpgradeBeforeIt(t *testing.T) {
	s := inMemory(t)
	s.spec = world.OnNodes()
	s.spec.DevicePlugin, s.spec.GcusharePlugin, s.spec.GcushareScheduler = nil, &topsv1.GcusharePluginSpec{}, &topsv1.BaseFields{}
	exists := func(name string) bool {
		err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, &appsv1.Deployment{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	const before, after = "gcushare-scheduler-extender", "another"
	edit := func(gr *topsv1.GcuResource) {
		gr.Spec.Driver.Version, gr.Spec.GcushareScheduler.Name = "v2", after
	}
	if err := errors.Join(deployAll(s), s.goOn(nil), s.edit(edit), s.turn()); err != nil {
		t.Fatal(err)
	}
	if !exists(before) || exists(after) {
		t.Fatal("the scheduler does not stay while the driver is upgraded")
	}
	if err := s.turn(); err != nil { // the driver's DaemonSet is not observed yet
		t.Fatal(err)
	}
	if !exists(before) || exists(after) {
		t.Fatal("the scheduler does not stay until the driver runs again")
	}
	if err := s.goOn(nil); err != nil || exists(before) || !exists(after) {
		t.Errorf("the scheduler did not move: %v", err)
	}
}

// renamedAtOnce returns a gr without a strategy that runs, and whose feature discovery has just got another name.
func renamedAtOnce(t *testing.T) *scene {
	t.Helper()
	s := inMemory(t)
	s.spec = world.OnNodes()
	atOnce := func(gr *topsv1.GcuResource) { delete(gr.Annotations, topsv1.AnnotationUpdateStrategy) }
	rename := func(gr *topsv1.GcuResource) { gr.Spec.GFD.Name = "another" }
	if err := errors.Join(deployAll(s), s.goOn(nil), s.edit(atOnce), s.goOn(nil), s.edit(rename)); err != nil {
		t.Fatal(err)
	}
	return s
}

// A manager that starts applies everything once. If that changes nothing, no event says so.
func TestWhatStaysForAnApplyWithoutEffectGoesSoon(t *testing.T) {
	s := renamedAtOnce(t)
	s.restart()
	pass := func() ctrl.Result {
		result, err := s.gcu.Reconcile(log.IntoContext(context.Background(), logr.Discard()), ctrl.Request{NamespacedName: client.ObjectKey{Name: hero}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	ds := client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-feature-discovery"}
	again := pass().RequeueAfter
	if err := s.api.Get(t.Context(), ds, &appsv1.DaemonSet{}); err != nil || again == 0 {
		t.Errorf("the next pass is in %s: %v", again, err)
	}
	pass()
	if err := s.api.Get(t.Context(), ds, &appsv1.DaemonSet{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it stays: %v", err)
	}
}

// Somebody takes a label from the driver's DaemonSet after every pass: what is applied again each time is no other template.
func TestWhatIsChangedBackInEveryPassKeepsNothing(t *testing.T) {
	s := renamedAtOnce(t)
	for range 3 {
		driver := &appsv1.DaemonSet{}
		if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-driver"}, driver); err != nil {
			t.Fatal(err)
		}
		if driver.Labels[component.LabelName] == "" {
			t.Fatal("the label was not applied again")
		}
		before := driver.DeepCopy()
		delete(driver.Labels, component.LabelName)
		if err := s.api.Patch(t.Context(), driver, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.gcu.Reconcile(log.IntoContext(t.Context(), logr.Discard()), ctrl.Request{NamespacedName: client.ObjectKey{Name: hero}}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-feature-discovery"}, &appsv1.DaemonSet{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it stays: %v", err)
	}
}

// What has been deleted is replaced, though the driver loses a pod meanwhile.
func TestAReplacementIsMadeWhenTheDriverBreaksMeanwhile(t *testing.T) {
	s := renamedAtOnce(t)
	if err := errors.Join(s.turn(), s.turn()); err != nil {
		t.Fatal(err)
	}
	pods := &corev1.PodList{}
	if err := s.api.List(t.Context(), pods, client.MatchingLabels{component.LabelName: "enflame-gcu-driver"}); err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of the driver: %v", len(pods.Items), err)
	}
	if err := errors.Join(s.api.Delete(t.Context(), &pods.Items[0]), s.rest.collect(), s.turn()); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "another"}, &appsv1.DaemonSet{}); err != nil {
		t.Errorf("all nodes lack it: %v", err)
	}
}
