package gcuresource

import (
	"fmt"
	"testing"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// What a pass over an unchanged gr computes, without its reads but with what is
// kept: the default blueprint, running on every node.
func BenchmarkUnchanged(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d_nodes", nodes), func(b *testing.B) {
			gr := example(b, "gcu-resource.json")
			gr.UID, gr.Generation = "gr-uid", 1
			obs := newWorld(b, gr, nodes)
			obs.run(component.Requested(&gr.Spec)...)
			gr.Status = obs.next()
			obs.keeping(newKept())
			b.ReportAllocs()
			for b.Loop() {
				if status := obs.next(); status.Phase != "Running" {
					b.Fatal(status.Conditions)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	gr := newGR(heroSpec())
	b.ReportAllocs()
	for b.Loop() {
		render(b, gr)
	}
}
