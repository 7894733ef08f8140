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
	names map[observed.Group]map[string]bool // nil for a group: any node may have changed
}

// Add records an event about a node.
func (c *ChangedNodes) Add(g observed.Group, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[observed.Group]map[string]bool{}
	}
	names, found := c.names[g]
	if !found {
		names = map[string]bool{}
		c.names[g] = names
	}
	if names != nil {
		names[node] = true
	}
}

// AddAll records that any node may have changed: events may not have been recorded since the last pass.
func (c *ChangedNodes) AddAll(g observed.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[observed.Group]map[string]bool{}
	}
	c.names[g] = nil
}

// Take returns and clears the nodes of a group, sorted. all reports whether any other node may have changed, too.
func (c *ChangedNodes) Take(g observed.Group) (nodes []string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, found := c.names[g]
	delete(c.names, g)
	return slices.Sorted(maps.Keys(names)), found && names == nil
}
