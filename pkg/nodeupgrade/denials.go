package nodeupgrade

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// denials remembers, by node, which deletions and fences of pods were denied. They need not survive the process:
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

// maxRetryWait is the longest time until a denied deletion is retried (retry.Next).
const maxRetryWait = 30 * time.Second

// add records that the deletion of a pod, or its fence, was denied.
func (d *denials) add(node string, pod types.UID, ofFence bool, why error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[node] == nil {
		d.nodes[node] = map[types.UID]denied{}
	}
	wait := retry.Next(d.nodes[node][pod].wait, maxRetryWait)
	d.nodes[node][pod] = denied{operation.Denial{Retry: now.Add(wait), Message: why.Error(), OfFence: ofFence}, wait}
}

// forget forgets the denial of a pod.
func (d *denials) forget(node string, pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes[node], pod)
}

// of returns the denials of a node.
func (d *denials) of(node string) map[types.UID]operation.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make(map[types.UID]operation.Denial, len(d.nodes[node]))
	for pod, is := range d.nodes[node] {
		list[pod] = is.Denial
	}
	return list
}

// end forgets a node without an operation.
func (d *denials) end(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
}
