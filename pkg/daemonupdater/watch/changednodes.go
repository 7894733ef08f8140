package watch

import (
	"maps"
	"slices"
	"sync"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// ChangedNodes records, per group, the nodes of events since the last pass. It is safe for
// concurrent use.
type ChangedNodes struct {
	mu    sync.Mutex
	names map[observed.Group]map[string]bool
}

// Add records an event about a node.
func (c *ChangedNodes) Add(g observed.Group, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[observed.Group]map[string]bool{}
	}
	if c.names[g] == nil {
		c.names[g] = map[string]bool{}
	}
	c.names[g][node] = true
}

// Take returns and clears the nodes of a group, sorted.
func (c *ChangedNodes) Take(g observed.Group) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Sorted(maps.Keys(c.names[g]))
	delete(c.names, g)
	return names
}
