package deletion

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Requests are what one process has asked of the API server.
type Requests struct {
	// Deletions and Fences of pods, by the UID of the pod.
	Deletions, Fences Attempts
	// Operations and Pulls of nodes, by the UID of the node.
	Operations, Pulls Attempts
}

func (r *Requests) all() [4]*Attempts {
	return [4]*Attempts{&r.Deletions, &r.Fences, &r.Operations, &r.Pulls}
}

// Show shows the denied requests of a group about a node in what is decided on.
func (r *Requests) Show(g observed.Group, n *rollout.Node) {
	n.Denied, n.Unfenced, n.Unordered = r.Deletions.DenialOf(g, n), r.Fences.DenialOf(g, n), r.Operations.DenialOf(g, n)
	if refused := n.Unordered; refused != nil && refused.Retry.After(n.Retry) {
		n.Retry, n.RetryWhy = refused.Retry, "the operation of the node cannot be written, which is tried again: "+refused.Message
	}
}

// NextRetry returns how long until a request of a group is made again, 0 for none (Attempts.NextRetry).
func (r *Requests) NextRetry(g observed.Group, now time.Time) (again time.Duration) {
	for _, attempts := range r.all() {
		if next := attempts.NextRetry(g, now); next > 0 && (again == 0 || next < again) {
			again = next
		}
	}
	return again
}

// Prune forgets the pods of a group that do not run any more, and the nodes that do not exist: runs and
// exists report that.
func (r *Requests) Prune(g observed.Group, runs, exists func(node string, uid types.UID) bool) {
	r.Deletions.Prune(g, runs)
	r.Fences.Prune(g, runs)
	r.Operations.Prune(g, exists)
	r.Pulls.Prune(g, exists)
}

// Forget forgets a group that is gone.
func (r *Requests) Forget(g observed.Group) { r.Prune(g, nil, nil) }
