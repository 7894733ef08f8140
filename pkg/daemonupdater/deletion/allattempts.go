package deletion

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// AllAttempts are the attempts of one process, by kind of request.
type AllAttempts struct {
	// Deletions and Fences of pods, by the UID of the pod.
	Deletions, Fences Attempts
	// Operations and Pulls of nodes, by the UID of the node.
	Operations, Pulls Attempts
	// Releases of pods from the gate, and Restores of earlier ones in their place, by the UID of the pod at the gate.
	Releases, Restores Attempts
	// Conditions of pods, by the UID of the pod.
	Conditions Attempts
	// Replaced are the members that were replaced on nodes.
	Replaced Replaced
}

func (a *AllAttempts) all() [7]*Attempts {
	return [7]*Attempts{&a.Deletions, &a.Fences, &a.Operations, &a.Pulls, &a.Releases, &a.Restores, &a.Conditions}
}

// Show adds the denied requests of a group, and what was replaced lately, to the node that the plan sees. observed.LeavePulls adds a denied pull.
func (a *AllAttempts) Show(s *observed.State, node *corev1.Node, n *rollout.Node) {
	g := s.Group
	n.DeniedDeletion, n.DeniedFence, n.DeniedOperation = a.Deletions.DenialOf(g, n), a.Fences.DenialOf(g, n), a.Operations.DenialOf(g, n)
	n.DeniedAtGate = cmp.Or(a.Releases.DenialOf(g, n), a.Restores.DenialOf(g, n))
	n.Replaced = a.Replaced.Of(s, node, n)
	if denied := n.DeniedOperation; denied != nil && denied.Retry.After(n.Retry) {
		n.Retry, n.RetryWhy = denied.Retry, "the operation of the node cannot be written; retrying: "+denied.Message
	}
}

// NextRetry returns how long until a request of a group is made again, 0 for none (Attempts.NextRetry).
func (a *AllAttempts) NextRetry(g observed.Group, now time.Time) (again time.Duration) {
	for _, attempts := range a.all() {
		again = retry.Sooner(again, attempts.NextRetry(g, now))
	}
	return again
}

// Prune forgets the pods of a group for which runs returns false, and the nodes for which exists does. runs reports
// whether a pod is seen on a node and is not terminating.
func (a *AllAttempts) Prune(g observed.Group, runs, exists func(node string, uid types.UID) bool) {
	a.Deletions.Prune(g, runs)
	a.Fences.Prune(g, runs)
	a.Releases.Prune(g, runs)
	a.Restores.Prune(g, runs)
	a.Conditions.Prune(g, runs)
	a.Operations.Prune(g, exists)
	a.Pulls.Prune(g, exists)
}

// Forget forgets a group that is gone.
func (a *AllAttempts) Forget(g observed.Group) {
	a.Prune(g, nil, nil)
	delete(a.Replaced, g)
}
