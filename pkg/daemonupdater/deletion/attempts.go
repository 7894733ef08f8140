// Package deletion remembers, for one process, which pods it deleted, what was replaced on nodes, and which requests about
// pods and nodes the API server denied. It decides when a request is made again; nothing depends on the memory being complete.
package deletion

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// After a denial the group is planned again after replan. The request is retried after
// retry.First, then after twice as long each time, up to lastRetry: no event says when an
// admission webhook or a role changes.
const (
	replan    = 50 * time.Millisecond
	lastRetry = 5 * time.Minute
)

// RedeleteAfter is how long after its deletion by this process a pod that is still seen is deleted again.
// By then the deletion was probably undone: etcd was restored from a backup.
const RedeleteAfter = time.Minute

// Attempts tracks requests of one kind by their group and the UID of their object, a pod or a node: deletions until
// the cache shows them, so that no pod is deleted twice, and requests that the API server denied. A manager that
// starts without them tries again; the budget does not depend on them.
type Attempts struct {
	mu   sync.Mutex
	last map[subject]attempt
}

// subject is what a request is about. Groups share nodes: what one of them is denied, another may be allowed.
type subject struct {
	group observed.Group
	uid   types.UID
}

// attempt is the last request about an object.
type attempt struct {
	node string
	// deleted is when the pod was deleted, zero for a request that was denied.
	deleted time.Time
	// denied is the denial, nil for a pod that was deleted; wait is the time from it to the next attempt.
	denied *rollout.Denial
	wait   time.Duration
	// unplanned: no plan has seen the denial yet.
	unplanned bool
}

// IsDue reports whether a request of a group about an object may be made now.
func (a *Attempts) IsDue(g observed.Group, uid types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.last[subject{g, uid}]
	return !ok || !known.due().After(now)
}

// due returns when the request may be made again.
func (a attempt) due() time.Time {
	if a.denied == nil {
		return a.deleted.Add(RedeleteAfter)
	}
	return a.denied.Retry
}

// Deleted records that a pod was deleted.
func (a *Attempts) Deleted(g observed.Group, node string, uid types.UID, now time.Time) {
	a.put(subject{g, uid}, attempt{node: node, deleted: now})
}

// Denied records that a request of a group about an object was denied.
func (a *Attempts) Denied(g observed.Group, node string, uid types.UID, why error, now time.Time) {
	of, next := subject{g, uid}, attempt{node: node, denied: &rollout.Denial{Object: uid, Since: now, Message: why.Error()}}
	a.mu.Lock()
	if last, ok := a.last[of]; ok && last.denied != nil {
		next.denied.Since, next.wait = last.denied.Since, last.wait
	}
	a.mu.Unlock()
	next.wait = retry.Next(next.wait, lastRetry)
	next.denied.Retry = now.Add(next.wait)
	next.unplanned = true
	a.put(of, next)
}

// Allowed forgets that a request of a group about an object was denied.
func (a *Attempts) Allowed(g observed.Group, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, subject{g, uid})
}

func (a *Attempts) put(of subject, is attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[subject]attempt{}
	}
	a.last[of] = is
}

// DenialOf returns the denied request of a group about a node, or about one of its pods; nil if there is none.
func (a *Attempts) DenialOf(g observed.Group, n *rollout.Node) *rollout.Denial {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.last[subject{g, n.UID}]; known.denied != nil {
		return known.denied
	}
	for i := range n.Pods {
		if known := a.last[subject{g, n.Pods[i].UID}]; known.denied != nil {
			return known.denied
		}
	}
	return nil
}

// NextRetry returns how long until a request of a group is retried, 0 for none: replan after a new denial,
// so that the group is planned again soon. now is the time of the last plan. A request that was due then and was
// not made is no longer needed.
func (a *Attempts) NextRetry(g observed.Group, now time.Time) (again time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of, known := range a.last {
		if of.group != g {
			continue
		}
		left := max(known.due().Sub(now), 0)
		if known.unplanned {
			left, known.unplanned = replan, false
			a.last[of] = known
		}
		again = retry.Sooner(again, left)
	}
	return again
}

// Prune forgets the objects of a group for which exists returns false; all, if exists is nil because the group
// is gone.
func (a *Attempts) Prune(g observed.Group, exists func(node string, uid types.UID) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of, known := range a.last {
		if of.group == g && (exists == nil || !exists(known.node, of.uid)) {
			delete(a.last, of)
		}
	}
}
