package gcuresource

import (
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The template of a Job is immutable.
func TestAJobThatCannotCompleteIsMadeAgainFromTheCorrectedSpec(t *testing.T) {
	s := inMemory(t)
	s.spec = topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{Admission: &topsv1.BaseFields{Version: "wrong"}}}
	s.rest.pullable = ":right"
	version := func(v string) error {
		return errors.Join(s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Volcano.Admission.Version = v }), s.goOn(nil))
	}
	read := func() *batchv1.Job {
		job := &batchv1.Job{}
		if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "volcano-system", Name: "volcano-admission-init"}, job); err != nil {
			t.Fatal(err)
		}
		return job
	}
	if err := errors.Join(deployAll(s), s.goOn(nil)); err != nil {
		t.Fatal(err)
	}
	wrong := read()
	s.restart()
	if err := s.goOn(nil); err != nil || read().UID != wrong.UID {
		t.Errorf("a Job of this spec is made again: %v", err)
	}
	if err := version("right"); err != nil {
		t.Fatal(err)
	}
	right := read()
	if image := right.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":right") || len(right.Status.Conditions) == 0 {
		t.Errorf("the Job has image %s and conditions %v", image, right.Status.Conditions)
	}
	if gr, err := s.gr(); err != nil || gr.Status.Phase != "Running" {
		t.Errorf("the gr is %s: %v", gr.Status.Phase, err)
	}
	if err := version("right-2"); err != nil || read().UID != right.UID {
		t.Errorf("a Job that is complete is made again: %v", err)
	}
}
