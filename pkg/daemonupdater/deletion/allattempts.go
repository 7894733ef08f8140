package deletion

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// AllAttempts are those of one process, by what is attempted.
type AllAttempts struct {
	// Deletions and Fences of pods, by the UID of the pod.
	Deletions, Fences Attempts
	// Operations and Pulls of nodes, by the UID of the node.
	Operations, Pulls Attempts
}

func (a *AllAttempts) all() [4]*Attempts {
	return [4]*Attempts{&a.Deletions, &a.Fences, &a.Operations, &a.Pulls}
}

// Show shows the denied requests of a group about a node in what is decided on. A denied pull is shown by
// observed.LeavePulls.
func (a *AllAttempts) Show(g observed.Group, n *rollout.Node) {
	n.DeniedDeletion, n.DeniedFence, n.DeniedOperation = a.Deletions.DenialOf(g, n), a.Fences.DenialOf(g, n), a.Operations.DenialOf(g, n)
	if refused := n.DeniedOperation; refused != nil && refused.Retry.After(n.Retry) {
		n.Retry, n.RetryWhy = refused.Retry, "the operation of the node cannot be written, which is tried again: "+refused.Message
	}
}

// NextRetry returns how long until a request of a group is made again, 0 for none (Attempts.NextRetry).
func (a *AllAttempts) NextRetry(g observed.Group, now time.Time) (again time.Duration) {
	for _, attempts := range a.all() {
		again = retry.Sooner(again, attempts.NextRetry(g, now))
	}
	return again
}

// Prune forgets the pods of a group that do not run any more, and the nodes that do not exist: runs and
// exists report that.
func (a *AllAttempts) Prune(g observed.Group, runs, exists func(node string, uid types.UID) bool) {
	a.Deletions.Prune(g, runs)
	a.Fences.Prune(g, runs)
	a.Operations.Prune(g, exists)
	a.Pulls.Prune(g, exists)
}

// Forget forgets a group that is gone.
func (a *AllAttempts) Forget(g observed.Group) { a.Prune(g, nil, nil) }
