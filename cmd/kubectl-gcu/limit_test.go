package main

import (
	"strings"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestUpgradeThatIsLimited(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("cut")
	only := func(want, version string) {
		t.Helper()
		s.read(gr)
		if got := gr.Annotations[topsv1.AnnotationUpgradeOnly]; got != want || gr.Spec.Driver.Version != version || gr.Annotations[topsv1.AnnotationUpdateStrategy] == "" {
			t.Errorf("it is limited to %q with version %s and annotations %v, want %q and %s", got, gr.Spec.Driver.Version, gr.Annotations, want, version)
		}
	}
	next := grFile("cut", "1.1")
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1,cut-2", "--components", "driver"), exitOK, "driver.version: 1.0 -> 1.1",
		"limited to 2 nodes (cut-1, cut-2) and 1 component (driver)", "gr cut is changed")
	only("nodes=cut-1,cut-2;components=driver", "1.1")
	onlyOursWrote(t, gr, topsv1.AnnotationUpgradeOnly)
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1", "--nodes", "cut-2", "--components", "driver"), exitOK, "already has this spec, limited to 2 nodes")
	s.says(s.gcu("upgrade", "cut", "--nodes", "cut-3"), exitOK, "limited to 1 node (cut-3)")
	only("nodes=cut-3", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "no longer limited to 1 node (cut-3)")
	only("", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "already has this spec, and is not limited")
	limited := strings.Replace(grFile("cut", "1.2"), "{name: cut}", "{name: cut, annotations: {"+topsv1.AnnotationUpgradeOnly+": nodes=cut-2}}", 1)
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-"), exitOK, "limited to 1 node (cut-2)")
	only("nodes=cut-2", "1.2")
	s.says(s.gcuWith(t.Context(), grFile("cut", "1.3"), "upgrade", "-f", "-"), exitOK, "no longer limited to 1 node (cut-2)")
	only("", "1.3")
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-", "--all"), exitOK, "driver.version: 1.3 -> 1.2")
	only("", "1.2")

	s.says(s.gcuWith(t.Context(), strings.Replace(limited, "nodes=", "racks=", 1), "upgrade", "-f", "-"), exitUsage, "upgrade-only")
	s.says(s.gcuWith(t.Context(), grFile("cut", "9"), "upgrade", "-f", "-", "--nodes", "absent"), exitUsage, "there is no node absent")
	s.says(s.gcu("upgrade", "cut"), exitUsage, "-f FILE, or without it --nodes, --components or --all")
	s.says(s.gcu("upgrade", "absent", "--all"), exitRefused, "there is no gr absent")
	only("", "1.2")
}
