package world

import (
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Cache is a cache with the lists that it was last given.
type Cache struct {
	*state.Cache
	nodes  []*corev1.Node
	hosts  map[string]state.Host
	pods   map[string][]*corev1.Pod
	counts map[string]int
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{Cache: state.NewCache(), pods: map[string][]*corev1.Pod{}, counts: map[string]int{}}
}

// Use lets an observation use what the one before left, as the controller does: a
// count changes when a list has other objects than it had.
func (c *Cache) Use(obs *state.Observation) error {
	if !SameObjects(c.nodes, obs.Nodes) {
		c.nodes = obs.Nodes
		c.counts[""]++
	}
	obs.Cache = c.Cache
	obs.CachedNodes = c.Nodes(c.counts[""], func() []any { return shuffled(obs.Nodes) })
	obs.Nodes = obs.CachedNodes.List
	if !maps.Equal(c.hosts, obs.Hosts) {
		c.hosts = obs.Hosts
		c.counts["hosts"]++
	}
	var err error
	if obs.Hosts, err = c.Hosts(c.counts["hosts"], func() (map[string]state.Host, error) { return obs.Hosts, nil }); err != nil {
		return err
	}
	for i := range obs.Components {
		of := &obs.Components[i]
		if !SameObjects(c.pods[of.Name], of.Pods) {
			c.pods[of.Name] = of.Pods
			c.counts[of.Name]++
		}
		key := state.PodsKey{Workload: of.Name, Count: c.counts[of.Name]}
		if of.CachedPods, err = c.Pods(of.Name, key, func() ([]*corev1.Pod, error) { return of.Pods, nil }); err != nil {
			return err
		}
		of.Pods = of.CachedPods.List
	}
	return nil
}

// SameObjects reports whether two lists hold the same objects, in any order.
func SameObjects[T comparable](a, b []T) bool {
	set := map[T]bool{}
	for _, o := range a {
		set[o] = true
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(o T) bool { return !set[o] })
}

func shuffled[T any](list []T) []any {
	mixed := make([]any, len(list))
	for i, j := range rand.Perm(len(list)) {
		mixed[i] = list[j]
	}
	return mixed
}
