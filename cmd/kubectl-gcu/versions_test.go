package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The pods of plannable have version 1.
func TestVersionsOfARealServer(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("stepped")
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "stepped"}, Spec: topsv1.UpgradePolicySpec{
		Versions: &topsv1.VersionPolicy{Steps: []topsv1.VersionStep{{Component: "driver", From: "1.0.x", To: "1.1.x"}, {Component: "driver", From: "1.1.x", To: "1.2.x"}}}}})
	s.read(gr)
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradePolicy, "stepped")
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	const path = "the allowed path is 1 > a version in 1.1.x such as 1.1.0 > 1.2.0"
	for _, command := range []string{"plan", "upgrade"} {
		t.Run("contract 97: "+command, func(t *testing.T) {
			s.says(s.gcuWith(t.Context(), grFile("stepped", "1.2.0"), command, "-f", "-"), exitRefused, "the UpgradePolicy does not allow these versions: on 3 nodes, as on stepped-1: driver 1 > 1.2.0", path)
		})
	}
	if s.read(gr); gr.Spec.Driver.Version != "1.0" {
		t.Fatalf("a refused upgrade wrote version %s", gr.Spec.Driver.Version)
	}
	s.says(s.gcuWith(t.Context(), grFile("stepped", "1.1.3"), "plan", "-f", "-"), exitOK, "3 of 3 nodes upgraded")
	s.says(s.gcuWith(t.Context(), grFile("stepped", "1.1.3"), "upgrade", "-f", "-"), exitOK, "gr stepped is changed")
	s.says(s.gcu("versions", "stepped"), exitOK, "COMPONENT   VERSION", "driver      1")
	s.says(s.gcu("versions", "stepped", "--nodes"), exitOK, "stepped-1   1", "stepped-3   1")
	s.says(s.gcu("versions", "stepped", "-o", "json"), exitOK, `"component": "driver"`, `"nodes": 3`)
}
