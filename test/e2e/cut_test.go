package e2e

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// limited: an upgrade that is limited to one component on one node does exactly that,
// and goes on with the rest when the limit is taken away.
func (s *scenarios) limited(ctx context.Context, t *testing.T) {
	const only = "node-0004"
	d := s.newDrivers(ctx, t, "limited", soon())
	drivers, exporters := s.podsOf(ctx, t, "enflame-gcu-driver"), s.podsOf(ctx, t, "enflame-gcu-exporter")
	if _, err := s.Kubectl(ctx, "annotate", "gr", d.name, topsv1.AnnotationUpgradeOnly+"=nodes="+only+";components=exporter"); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"driver":{"version":"v2"},"exporter":{"version":"v2"}}}`))
	gr := &topsv1.GcuResource{}
	gr.Name = d.name
	if err := s.Client.Patch(ctx, gr, patch); err != nil {
		t.Fatal(err)
	}
	left := func(r *topsv1.DaemonRolloutStatus) bool {
		return r.InFlightNodes == 0 && slices.ContainsFunc(r.Waiting, func(w topsv1.WaitingNote) bool { return w.Reason == "LeftOut" && w.Nodes == scenarioNodes })
	}
	d.reaches(ctx, "done where it may be", func(r *topsv1.DaemonRolloutStatus) bool {
		return left(r) && survivors(exporters, s.podsOf(ctx, t, "enflame-gcu-exporter")) == scenarioNodes-1
	})
	if image := d.podsByNode(ctx, "app.kubernetes.io/name", "enflame-gcu-exporter")[only].Spec.Containers[0].Image; !hasTag(image, "v2") {
		t.Errorf("the exporter of %s has image %s", only, image)
	}
	if survivors(drivers, s.podsOf(ctx, t, "enflame-gcu-driver")) != scenarioNodes {
		t.Error("a driver was replaced")
	}
	if _, err := s.Kubectl(ctx, "annotate", "gr", d.name, topsv1.AnnotationUpgradeOnly+"-"); err != nil {
		t.Fatal(err)
	}
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == scenarioNodes })
	if survivors(drivers, s.podsOf(ctx, t, "enflame-gcu-driver")) != 0 {
		t.Error("a driver is still the one before")
	}
	d.givenBack(ctx)
}
