package nodeupgrade

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// denials remembers, by node, which deletions and fences of pods, and changes of the Node, were denied. They need not survive the process:
// another one tries again. It is safe for concurrent use.
type denials struct {
	mu    sync.Mutex
	nodes map[string]map[types.UID]denied
}

// denied is a denial, and how long the last wait for another attempt was.
type denied struct {
	operation.Denial
	wait time.Duration
}

// maxRetryWait is the longest time until a denied write is retried (retry.Next).
const maxRetryWait = 30 * time.Second

// add records that the deletion of a pod, its fence, or a change of the Node was denied.
func (d *denials) add(node string, object types.UID, ofFence bool, why error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[node] == nil {
		d.nodes[node] = map[types.UID]denied{}
	}
	wait := retry.Next(d.nodes[node][object].wait, maxRetryWait)
	d.nodes[node][object] = denied{operation.Denial{Retry: now.Add(wait), Message: why.Error(), OfFence: ofFence}, wait}
}

// forget forgets the denial of a pod or the Node.
func (d *denials) forget(node string, object types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes[node], object)
}

// of returns the denials of a node.
func (d *denials) of(node string) map[types.UID]operation.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make(map[types.UID]operation.Denial, len(d.nodes[node]))
	for object, is := range d.nodes[node] {
		list[object] = is.Denial
	}
	return list
}

// end forgets a node without an operation.
func (d *denials) end(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
}
