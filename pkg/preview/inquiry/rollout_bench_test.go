package inquiry

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// fixed is a cache with fixed content.
type fixed struct {
	sets      []appsv1.DaemonSet
	revisions map[string][]appsv1.ControllerRevision
	nodes     []corev1.Node
	pods      map[string][]corev1.Pod
}

func (fixed) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (f fixed) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	app := ""
	if o.LabelSelector != nil {
		app, _ = o.LabelSelector.RequiresExactMatch("app")
	}
	switch l := list.(type) {
	case *appsv1.DaemonSetList:
		l.Items = f.sets
	case *appsv1.ControllerRevisionList:
		l.Items = f.revisions[app]
	case *corev1.NodeList:
		l.Items = f.nodes
	case *corev1.PodList:
		l.Items = f.pods[app]
	}
	return nil
}

// BenchmarkRollout plans the upgrade of a driver, with drains, on many nodes.
func BenchmarkRollout(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		f := fixed{revisions: map[string][]appsv1.ControllerRevision{}, pods: map[string][]corev1.Pod{}}
		for _, component := range []string{"driver", "exporter"} {
			ds := fixture.ComponentOf(component)
			fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "1%")
			f.sets = append(f.sets, *ds)
			for _, r := range fixture.RevisionsOf(ds, fixture.NewHash) {
				f.revisions[ds.Name] = append(f.revisions[ds.Name], *r)
			}
			for i := range n {
				f.pods[ds.Name] = append(f.pods[ds.Name], *fixture.PodOn(ds, fmt.Sprintf("node-%05d", i), fixture.NewHash))
			}
			f.pods[""] = append(f.pods[""], f.pods[ds.Name]...)
		}
		for i := range n {
			f.nodes = append(f.nodes, *fixture.Node(fmt.Sprintf("node-%05d", i)))
		}
		p := Predictor{Reader: f, Live: f, Namespace: "gcu-system", Clock: func() time.Time { return fixture.Epoch }}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if got, err := p.rolloutOf(b.Context(), changes("driver")); err != nil || len(got.Nodes) != n {
					b.Fatal(err, len(got.Nodes), got.Blocked)
				}
			}
		})
	}
}
