package gcuresource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/world"
)

// The pods of a component that was renamed just before are waited for, though no DaemonSet and no spec names them.
func TestADeletionWaitsForPodsUnderFormerNames(t *testing.T) {
	s := inMemory(t)
	rename := func(gr *topsv1.GcuResource) {
		delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
		gr.Spec.Exporter.Name = "another"
	}
	if err := errors.Join(deployAll(s), s.goOn(nil), s.edit(rename), s.turn(), deleteHero(s)); err != nil {
		t.Fatal(err)
	}
	s.rest.lingers, s.rest.steps = 100, 0
	for range 8 {
		if err := errors.Join(s.turn(), s.rest.step()); err != nil {
			t.Fatal(err)
		}
	}
	gr, err := s.gr()
	if err != nil {
		t.Fatal(err)
	}
	const waits = "removing exporter: waiting for pods on node-1, node-2"
	if c := world.Standard(gr.Status, "Progressing"); !strings.HasSuffix(c, waits) {
		t.Errorf("Progressing is %s", c)
	}
	s.rest.lingers = 0
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.gr(); !apierrors.IsNotFound(err) {
		t.Errorf("the gr is not gone: %v", err)
	}
}

// A manager whose clock is ahead of that of the API server, which writes when the pods were deleted, waits for them all the same.
func TestADaemonSetWaitsForFormerPodsThoughTheClockIsAhead(t *testing.T) {
	const ahead = 3 * time.Hour
	s := inMemory(t)
	s.now = world.Noon.Add(ahead)
	s.gcu.StateTimes = &daemonset.StateTimes{Ahead: func(time.Time) time.Duration { return ahead }}
	rename := func(gr *topsv1.GcuResource) {
		delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
		gr.Spec.Driver.Name = "another"
	}
	if err := errors.Join(deployAll(s), s.goOn(nil), s.edit(rename)); err != nil {
		t.Fatal(err)
	}
	s.rest.lingers, s.rest.steps = 100, 0
	if err := errors.Join(s.turn(), s.rest.step(), s.turn(), s.deletesFormer("enflame-gcu-driver")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		passed time.Duration
		exists bool
	}{{0, false}, {5 * time.Minute, false}, {time.Second, true}} {
		s.now = s.now.Add(step.passed)
		if err := errors.Join(s.turn(), s.rest.step()); err != nil {
			t.Fatal(err)
		}
		err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "another"}, &appsv1.DaemonSet{})
		if exists := err == nil; exists != step.exists || client.IgnoreNotFound(err) != nil {
			t.Errorf("%s after the deletion of the pods, the new DaemonSet exists: %v (%v), want %v", s.now.Sub(world.Noon.Add(ahead)), exists, err, step.exists)
		}
	}
}

// deletesFormer deletes the pods of a DaemonSet that is gone. They have no grace period, and a finalizer that stays.
func (s *scene) deletesFormer(name string) error {
	var pods corev1.PodList
	if err := s.api.List(context.Background(), &pods, client.MatchingLabels{component.LabelName: name}); err != nil {
		return err
	}
	for i := range pods.Items {
		before := pods.Items[i].DeepCopy()
		pods.Items[i].Finalizers = []string{"example.com/kept"}
		if err := errors.Join(s.api.Patch(context.Background(), &pods.Items[i], client.MergeFrom(before)), s.api.Delete(context.Background(), &pods.Items[i])); err != nil {
			return err
		}
	}
	return nil
}
