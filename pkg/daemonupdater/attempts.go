package daemonupdater

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// A denied deletion is retried after firstRetry, then after twice as long each time, up to
// lastRetry: no event says when an admission webhook or a role changes.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// attempts records which pods this process deleted until the cache shows it, so that no pod is
// deleted twice, and which deletions the API server denied. A manager that starts without them
// tries again; the budget does not depend on them.
type attempts struct {
	mu   sync.Mutex
	pods map[types.UID]attempt
}

// attempt is the deletion of a pod.
type attempt struct {
	group observed.Group
	node  string
	// denied is nil when the pod was deleted, else wait is the time until the next attempt.
	denied *rollout.Denial
	wait   time.Duration
	// unplanned: no plan has seen the denial yet.
	unplanned bool
}

// isDue reports whether the deletion of a pod is to be tried now.
func (a *attempts) isDue(pod types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.pods[pod]
	return !ok || known.denied != nil && !known.denied.Retry.After(now)
}

// deleted records that a pod was deleted.
func (a *attempts) deleted(g observed.Group, node string, pod types.UID) {
	a.put(pod, attempt{group: g, node: node})
}

// denied records that the deletion of a pod was denied.
func (a *attempts) denied(g observed.Group, node string, pod types.UID, why error, now time.Time) {
	next := attempt{group: g, node: node, wait: firstRetry, denied: &rollout.Denial{Pod: pod, Since: now, Message: why.Error()}}
	a.mu.Lock()
	if last, ok := a.pods[pod]; ok && last.denied != nil {
		next.denied.Since, next.wait = last.denied.Since, min(2*last.wait, lastRetry)
	}
	a.mu.Unlock()
	next.denied.Retry = now.Add(next.wait)
	next.unplanned = true
	a.put(pod, next)
}

func (a *attempts) put(pod types.UID, is attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[types.UID]attempt{}
	}
	a.pods[pod] = is
}

// denialOf returns the denied deletion among the pods of a node, nil if there is none.
func (a *attempts) denialOf(n *rollout.Node) *rollout.Denial {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range n.Pods {
		if known := a.pods[n.Pods[i].UID]; known.denied != nil {
			return known.denied
		}
	}
	return nil
}

// nextRetry returns how long until a denied deletion of a group is retried, or is planned with,
// 0 for none.
func (a *attempts) nextRetry(g observed.Group, now time.Time) (again time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for pod, known := range a.pods {
		if known.group == g && known.unplanned {
			again, known.unplanned = retryStaleCache, false
			a.pods[pod] = known
		}
		if known.group == g && known.denied != nil {
			again = soonest(again, max(known.denied.Retry.Sub(now), time.Millisecond))
		}
	}
	return again
}

// prune forgets the pods of a group that are seen terminating or not at all. nodes is nil when
// the group is gone.
func (a *attempts) prune(g observed.Group, nodes *report.Nodes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, known := range a.pods {
		if known.group == g && (nodes == nil || !nodes.Runs(known.node, uid)) {
			delete(a.pods, uid)
		}
	}
}

// isDenial reports whether the API server refused a request, by its own rules or those of a
// webhook. Errors of its load, or of the network, are no refusals.
func isDenial(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500 && !apierrors.IsTooManyRequests(err)
}
