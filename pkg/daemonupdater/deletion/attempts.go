// Package deletion remembers, for one process, which pods it deleted and which requests about pods and nodes
// the API server denied. It decides when one is made again; nothing depends on its being complete.
package deletion

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// After a denial the group is planned again after replan. The request is made again after
// retry.First, then after twice as long each time, up to lastRetry: no event says when an
// admission webhook or a role changes.
const (
	replan    = 50 * time.Millisecond
	lastRetry = 5 * time.Minute
)

// Unseen is how long a pod is not deleted again that this process deleted and that is still seen.
// After that the deletion was probably undone, by a backup of etcd that was restored.
const Unseen = time.Minute

// Attempts records which pods this process deleted until the cache shows it, so that no pod is
// deleted twice, and which deletions the API server denied. A manager that starts without them
// tries again; the budget does not depend on them. Each kind has Attempts of its own (AllAttempts).
type Attempts struct {
	mu   sync.Mutex
	pods map[types.UID]attempt
}

// attempt is the deletion of a pod.
type attempt struct {
	group observed.Group
	node  string
	// denied is nil when the pod was deleted, else wait is the time until the next attempt.
	// deleted is when it was deleted.
	deleted time.Time
	denied  *rollout.Denial
	wait    time.Duration
	// unplanned: no plan has seen the denial yet.
	unplanned bool
}

// IsDue reports whether the deletion of a pod is to be tried now.
func (a *Attempts) IsDue(pod types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.pods[pod]
	return !ok || !known.due().After(now)
}

// due returns when a request about the pod may be made again.
func (a attempt) due() time.Time {
	if a.denied == nil {
		return a.deleted.Add(Unseen)
	}
	return a.denied.Retry
}

// Deleted records that a pod was deleted.
func (a *Attempts) Deleted(g observed.Group, node string, pod types.UID, now time.Time) {
	a.put(pod, attempt{group: g, node: node, deleted: now})
}

// Denied records that the deletion of a pod was denied.
func (a *Attempts) Denied(g observed.Group, node string, pod types.UID, why error, now time.Time) {
	next := attempt{group: g, node: node, denied: &rollout.Denial{Object: pod, Since: now, Message: why.Error()}}
	a.mu.Lock()
	if last, ok := a.pods[pod]; ok && last.denied != nil {
		next.denied.Since, next.wait = last.denied.Since, last.wait
	}
	a.mu.Unlock()
	next.wait = retry.Next(next.wait, lastRetry)
	next.denied.Retry = now.Add(next.wait)
	next.unplanned = true
	a.put(pod, next)
}

// Allowed forgets that a request about a pod was denied.
func (a *Attempts) Allowed(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pods, pod)
}

func (a *Attempts) put(pod types.UID, is attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[types.UID]attempt{}
	}
	a.pods[pod] = is
}

// DenialOf returns the denied request of a group about a node, or about one of its pods; nil if there is none.
func (a *Attempts) DenialOf(g observed.Group, n *rollout.Node) *rollout.Denial {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.pods[n.UID]; known.denied != nil && known.group == g {
		return known.denied
	}
	for i := range n.Pods {
		if known := a.pods[n.Pods[i].UID]; known.denied != nil {
			return known.denied
		}
	}
	return nil
}

// NextRetry returns how long until a deletion of a group is retried, 0 for none. After a
// new denial the group is to be planned again at once. What was due at the given time, which is
// that of the last plan, and was not tried is not needed any more.
func (a *Attempts) NextRetry(g observed.Group, now time.Time) (again time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for pod, known := range a.pods {
		if known.group != g {
			continue
		}
		left := max(known.due().Sub(now), 0)
		if known.unplanned {
			left, known.unplanned = replan, false
			a.pods[pod] = known
		}
		again = retry.Sooner(again, left)
	}
	return again
}

// Prune forgets the pods of a group that do not run any more. runs reports whether a pod is seen
// on a node, and not terminating; it is nil when the group is gone.
func (a *Attempts) Prune(g observed.Group, runs func(node string, pod types.UID) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, known := range a.pods {
		if known.group == g && (runs == nil || !runs(known.node, uid)) {
			delete(a.pods, uid)
		}
	}
}
