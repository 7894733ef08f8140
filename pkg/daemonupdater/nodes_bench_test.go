package daemonupdater

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// indexedObjects is a cache of pods and nodes with client-go's indexes. It builds lists like
// controller-runtime does without deep copies.
type indexedObjects struct {
	client.Client
	pods, nodes toolscache.Indexer
}

func (c indexedObjects) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	var found []any
	switch list.(type) {
	case *corev1.NodeList:
		found = c.nodes.List()
	case *corev1.PodList:
		value, _ := o.FieldSelector.RequiresExactMatch(controllerUID)
		var err error
		if found, err = c.pods.ByIndex(controllerUID, value); err != nil {
			return err
		}
	}
	objects := make([]runtime.Object, len(found))
	for i := range found {
		objects[i] = found[i].(runtime.Object)
	}
	return meta.SetList(list, objects)
}

// BenchmarkPassFromScratch measures a pass without a kept fleet: it reads 10 000 nodes with six
// pods each from the cache, and plans. BenchmarkEvent of package rollout measures it with a kept
// fleet (ADR 0006).
func BenchmarkPassFromScratch(b *testing.B) {
	const nodes = 10_000
	cache := indexedObjects{
		pods: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
			controllerUID: func(o any) ([]string, error) { return indexByController(o.(client.Object)), nil },
		}),
		nodes: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{}),
	}
	state := &observed.State{Group: observed.Group{Kind: "GcuResource", Name: "gr"}, Rollout: &topsv1.DaemonRollout{}}
	for _, component := range []string{"nfd", "exporter", "gfd", "devicePlugin", "driver", "toolkit"} {
		ds := fixture.Annotate(fixture.ComponentOf(component), topsv1.AnnotationMaxUnavailable, "10%")
		state.Members = append(state.Members, observed.Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.NewHash)})
		for i := range nodes {
			hash := fixture.NewHash
			if component == "exporter" && i%2 == 0 {
				hash = fixture.OldHash
			}
			if err := cache.pods.Add(fixture.PodOn(ds, fmt.Sprintf("node-%05d", i), hash)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range nodes {
		if err := cache.nodes.Add(fixture.Node(fmt.Sprintf("node-%05d", i))); err != nil {
			b.Fatal(err)
		}
	}
	book := upgradeplan.DefaultBook()
	for b.Loop() {
		reader := fleetReader{Cluster: access.Cluster{Client: cache}, fleets: map[observed.Group]*pass.Fleet{}, lastRevisions: map[observed.Group]gating.LastRevisions{}}
		p := &pass.Pass{State: state, In: state.Input(&book, rollout.DefaultDeadlines, fixture.Epoch)}
		if err := reader.refresh(b.Context(), p, nil); err != nil {
			b.Fatal(err)
		}
		if d := p.Fleet.Plan(p.In); len(d.Started) != nodes/10 {
			b.Fatalf("started %d nodes: %v", len(d.Started), p.In.Blocked)
		}
	}
}
