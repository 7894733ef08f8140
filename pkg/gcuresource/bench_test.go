package gcuresource

import (
	"fmt"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// BenchmarkUnchanged measures the computation of a pass over an unchanged gr, without its reads
// but with its cache: the default blueprint, running on every node.
func BenchmarkUnchanged(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d_nodes", nodes), func(b *testing.B) {
			gr := example(b, "gcu-resource.json")
			gr.UID, gr.Generation = "gr-uid", 1
			obs := world.New(b, gr, nodes)
			obs.Run(component.Requested(&gr.Spec)...)
			next := func() topsv1.GcuResourceStatus {
				return status.Describe(obs.Observation, plan.Decide(obs.Observation, world.Noon), world.Noon)
			}
			gr.Status = next()
			if err := world.NewCache().Use(obs.Observation); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if got := next(); got.Phase != "Running" {
					b.Fatal(got.Conditions)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	gr := world.NewGR(heroSpec())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (&lastPasses{}).of(gr.Name).render(gr, component.Cluster{}); err != nil {
			b.Fatal(err)
		}
	}
}
