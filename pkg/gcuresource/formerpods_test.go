package gcuresource

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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
