package gcuresource

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestACRDThatCannotBeMadeIsNamed(t *testing.T) {
	s := newStage(t, "node-1")
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	refused := apierrors.NewForbidden(crds, nfdCRDName, errors.New("CRDs are made by the platform team"))
	s.breakWrites(func(write string, send func() error) error {
		if write == "apply "+nfdCRDName {
			return refused
		}
		return send()
	})
	s.create("without", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}})
	s.sees("without", "nfd", "failed", "applying CustomResourceDefinition "+nfdCRDName+": "+refused.Error())
	s.sees("without", "driver", "deploying", "waiting for nfd")
	s.breakWrites(nil)
	s.play("node-feature-discovery-ds")
	s.play("enflame-gcu-driver")
	s.reaches("without", "Running", "2/2")
}

func TestACRDThatIsBeingDeletedIsWaitedFor(t *testing.T) {
	s := newStage(t, "node-1")
	s.create("holding", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}})
	s.play("node-feature-discovery-ds")
	s.reaches("holding", "Running", "1/1")
	hold := func(finalizers ...string) {
		t.Helper()
		s.until("changing the finalizers of the CRD", func() string {
			crd := nfdCRD()
			s.must(s.get(crd, "", nfdCRDName))
			crd.SetFinalizers(finalizers)
			if err := s.Update(context.Background(), crd); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	hold("test/held")
	s.remove(nfdCRD())
	s.sees("holding", "nfd", "deploying", "waiting for CustomResourceDefinition "+nfdCRDName+" (being deleted, recreated afterwards)")
	hold()
	s.reaches("holding", "Running", "1/1")
	s.must(s.get(nfdCRD(), "", nfdCRDName))
}

// breakWrites injects a fault into the writes of the controllers; nil removes it.
func (s *stage) breakWrites(fault func(write string, send func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}
