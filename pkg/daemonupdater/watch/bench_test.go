package watch

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// limited is a cluster with the DaemonSets of a gr whose upgrade is limited to thousands of nodes.
type limited struct {
	client.Reader
	sets []appsv1.DaemonSet
}

func limitedTo(nodes int) limited {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("gcu-node-%05d.rack-%03d.example", i, i/16)
	}
	var l limited
	for _, name := range []string{"driver", "toolkit", "plugin", "exporter", "sharing", "discovery"} {
		ds := fixture.DaemonSet(name)
		fixture.Annotate(ds, topsv1.AnnotationUpgradeOnly, "nodes="+strings.Join(names, ","))
		l.sets = append(l.sets, *ds)
	}
	return l
}

// List implements client.Reader.
func (l limited) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*appsv1.DaemonSetList).Items = l.sets
	return nil
}

func TestANodeEventCostsTheSameUnderALongLimit(t *testing.T) {
	cost := func(nodes int) float64 {
		w, node := Groups{Reader: limitedTo(nodes), Changed: &ChangedNodes{}}, fixture.Node("a")
		return testing.AllocsPerRun(10, func() { w.OnNode(t.Context(), node) })
	}
	if short, long := cost(1), cost(5000); long > short {
		t.Errorf("%v allocations under a limit to 5000 nodes, %v under one to 1 node", long, short)
	}
}

func BenchmarkNodeEventUnderALimit(b *testing.B) {
	w, node := Groups{Reader: limitedTo(5000), Changed: &ChangedNodes{}}, fixture.Node("a")
	for b.Loop() {
		w.OnNode(b.Context(), node)
	}
}
