package gcuresource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// newCached returns an empty cache of pods and nodes.
func newCached() *indexedCache {
	return &indexedCache{
		pods:  toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{podIndex: workloadsOf}),
		nodes: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil),
	}
}

// put changes the cache as a watch does: first the object, then the event.
func (c *indexedCache) put(t *testing.T, in toolscache.Indexer, o client.Object) {
	t.Helper()
	before, known, err := in.Get(o)
	if err == nil {
		err = in.Update(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if known {
		c.counted().Update(event.UpdateEvent{ObjectOld: before.(client.Object), ObjectNew: o})
		return
	}
	c.counted().Create(event.CreateEvent{Object: o})
}

func (c *indexedCache) drop(t *testing.T, in toolscache.Indexer, o client.Object) {
	t.Helper()
	before, known, err := in.Get(o)
	if err == nil {
		err = in.Delete(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if known {
		c.counted().Delete(event.DeleteEvent{Object: before.(client.Object)})
	}
}

// change makes a random change to a pod or a node in the cache. A pod may get the name of another
// workload, or none.
func (c *indexedCache) change(t *testing.T, random *rand.Rand, obs *world.World) {
	t.Helper()
	node := world.GCUNode(fmt.Sprintf("node-%d", random.IntN(5)))
	of := &obs.Components[random.IntN(len(obs.Components))]
	pod := obs.Pod(of.Name, node.Name, "old")
	pod.Namespace = of.PerNode.Namespace
	other := &obs.Components[random.IntN(len(obs.Components))]
	pod.Labels[component.LabelName] = []string{of.PerNode.Name, of.PerNode.Name, other.PerNode.Name, ""}[random.IntN(4)]
	switch random.IntN(6) {
	case 0:
		c.drop(t, c.nodes, node)
	case 1:
		c.drop(t, c.pods, pod)
	case 2:
		node.Labels = nil
		c.put(t, c.nodes, node)
	case 3:
		c.put(t, c.nodes, node)
	default:
		c.put(t, c.pods, pod)
	}
}

// look reads pods and nodes through the cache.
func (c *indexedCache) look(t *testing.T, obs *world.World, k *state.Cache) *world.World {
	t.Helper()
	seen := obs.Copied()
	seen.Cache = k
	for i := range seen.Components {
		of := &seen.Components[i]
		of.Pods = nil
		if err := (podReader{cache: c}).read(t.Context(), seen.Observation, of, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := (stateReader{cache: c}).readFleet(t.Context(), seen.Observation); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestWhatIsKeptFollowsTheCache(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		obs := world.New(t, world.NewGR(world.OnNodes()), 0)
		obs.Create("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
		c, k := newCached(), state.NewCache()
		for step := range 200 {
			for range random.IntN(3) {
				c.change(t, random, obs)
			}
			want, got := c.look(t, obs, state.NewCache()), c.look(t, obs, k)
			for i := range want.Components {
				if !world.SameObjects(want.Components[i].Pods, got.Components[i].Pods) {
					t.Fatalf("seed %d, step %d: the pods of %s are not those of the cache", seed, step, want.Components[i].Name)
				}
			}
			if !slices.Equal(want.Nodes, got.Nodes) || !slices.Equal(nodelabel.GCUNodes(want.Nodes), got.GCUNodes()) {
				t.Fatalf("seed %d, step %d: the nodes are not those of the cache", seed, step)
			}
		}
	}
}

func TestPodsAndNodesThatDoNotChangeAreNotReadAgain(t *testing.T) {
	obs := world.New(t, world.NewGR(world.OnNodes()), 0)
	obs.Create("driver")
	c, k := newCached(), state.NewCache()
	c.put(t, c.nodes, world.GCUNode("node-1"))
	before := c.look(t, obs, k)
	c.put(t, c.pods, &corev1.Pod{}) // of another owner
	after := c.look(t, obs, k)
	if before.CachedNodes != after.CachedNodes {
		t.Error("the nodes were read again")
	}
	for i := range before.Components {
		if before.Components[i].CachedPods != after.Components[i].CachedPods {
			t.Errorf("the pods of %s were read again", before.Components[i].Name)
		}
	}
	c.put(t, c.nodes, world.GCUNode("node-1"))
	if c.look(t, obs, k).CachedNodes == after.CachedNodes {
		t.Error("a node that changed was not read again")
	}
}
