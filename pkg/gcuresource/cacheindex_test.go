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
)

// newCached returns a reconciler on a cache of pods and nodes that is empty.
func newCached() *Reconciler {
	return &Reconciler{
		pods:  toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{podIndex: workloadsOf}),
		nodes: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil),
	}
}

// put changes the cache as a watch does: first it holds the object, then the
// event is told.
func (r *Reconciler) put(t *testing.T, in toolscache.Indexer, o client.Object) {
	t.Helper()
	before, known, err := in.Get(o)
	if err == nil {
		err = in.Update(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if known {
		r.noted().Update(event.UpdateEvent{ObjectOld: before.(client.Object), ObjectNew: o})
		return
	}
	r.noted().Create(event.CreateEvent{Object: o})
}

func (r *Reconciler) drop(t *testing.T, in toolscache.Indexer, o client.Object) {
	t.Helper()
	before, known, err := in.Get(o)
	if err == nil {
		err = in.Delete(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if known {
		r.noted().Delete(event.DeleteEvent{Object: before.(client.Object)})
	}
}

// change does something to a pod or a node of the cache. A pod may come to carry
// the name of another workload, or none.
func (r *Reconciler) change(t *testing.T, random *rand.Rand, obs *Observation) {
	t.Helper()
	node := gcuNode(fmt.Sprintf("node-%d", random.IntN(5)))
	c := &obs.Components[random.IntN(len(obs.Components))]
	pod := obs.pod(c.Name, node.Name, "old")
	pod.Namespace = c.PerNode.Namespace
	other := &obs.Components[random.IntN(len(obs.Components))]
	pod.Labels[component.LabelName] = []string{c.PerNode.Name, c.PerNode.Name, other.PerNode.Name, ""}[random.IntN(4)]
	switch random.IntN(6) {
	case 0:
		r.drop(t, r.nodes, node)
	case 1:
		r.drop(t, r.pods, pod)
	case 2:
		node.Labels = nil
		r.put(t, r.nodes, node)
	case 3:
		r.put(t, r.nodes, node)
	default:
		r.put(t, r.pods, pod)
	}
}

// look reads pods and nodes, with what is kept.
func (r *Reconciler) look(t *testing.T, obs *Observation, k *kept) *Observation {
	t.Helper()
	seen := *obs
	seen.kept, seen.Components = k, slices.Clone(obs.Components)
	for i := range seen.Components {
		c := &seen.Components[i]
		c.Pods = nil
		if err := r.readPods(t.Context(), &seen, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.readFleet(t.Context(), &seen); err != nil {
		t.Fatal(err)
	}
	return &seen
}

func TestWhatIsKeptFollowsTheCache(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		obs := newWorld(t, newGR(onNodes()), 0)
		obs.create("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
		r, k := newCached(), newKept()
		for step := range 200 {
			for range random.IntN(3) {
				r.change(t, random, obs)
			}
			want, got := r.look(t, obs, newKept()), r.look(t, obs, k)
			for i := range want.Components {
				if !sameObjects(want.Components[i].Pods, got.Components[i].Pods) {
					t.Fatalf("seed %d, step %d: the pods of %s are not those of the cache", seed, step, want.Components[i].Name)
				}
			}
			if !slices.Equal(want.Nodes, got.Nodes) || !slices.Equal(gcuNodes(want.Nodes), got.gcuNodes()) {
				t.Fatalf("seed %d, step %d: the nodes are not those of the cache", seed, step)
			}
		}
	}
}

func TestPodsAndNodesThatDoNotChangeAreNotReadAgain(t *testing.T) {
	obs := newWorld(t, newGR(onNodes()), 0)
	obs.create("driver")
	r, k := newCached(), newKept()
	r.put(t, r.nodes, gcuNode("node-1"))
	before := r.look(t, obs, k)
	r.put(t, r.pods, &corev1.Pod{}) // somebody else's
	after := r.look(t, obs, k)
	if before.fleet != after.fleet {
		t.Error("the nodes were read again")
	}
	for i := range before.Components {
		if before.Components[i].kept != after.Components[i].kept {
			t.Errorf("the pods of %s were read again", before.Components[i].Name)
		}
	}
	r.put(t, r.nodes, gcuNode("node-1"))
	if r.look(t, obs, k).fleet == after.fleet {
		t.Error("a node that changed was not read again")
	}
}
