package ota

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
)

const (
	// retryFirst doubles up to retryLast while the API server cannot be used.
	retryFirst = time.Second
	retryLast  = time.Minute
	// resyncPeriod is how often the NodeUpgrade is read although nothing was seen to change.
	resyncPeriod = 4 * time.Minute
	// refreshPeriod is the least time between two looks at the pods of this node for
	// when the API server is away.
	refreshPeriod = time.Minute
	// jitter spreads the agents of many nodes: up to this part is added to a period.
	jitter = 0.5
)

// loop reconciles whenever something may have changed.
type loop struct {
	*reconciler
	// refreshed is when the pods were last looked at for when the API server is away.
	refreshed time.Time
	// seen is the part of the NodeUpgrade that Seen was told last.
	seen topsv1.NodeUpgrade
}

// Run keeps the NodeUpgrade in line with the journals until ctx is done: at
// start, whenever the NodeUpgrade changes, and every few minutes. An API server
// that is away is tried again after growing pauses.
func (l *loop) Run(ctx context.Context) {
	defer l.pulls.close()
	retry := retryFirst
	for connected := true; ctx.Err() == nil; {
		if err := l.syncOnce(ctx); err != nil {
			if connected && ctx.Err() == nil {
				l.log.Error(err, "Cannot show the requests of this node, trying again until it succeeds")
			} else {
				l.log.V(4).Info("Still cannot show the requests of this node", "cause", err.Error())
			}
			connected = false
			l.pause(ctx, wait.Jitter(retry, jitter))
			retry = min(2*retry, retryLast)
			continue
		}
		if !connected {
			l.log.Info("The requests of this node are shown again")
		}
		connected, retry = true, retryFirst
		l.waitForChange(ctx)
	}
}

// syncOnce brings the NodeUpgrade in line with the journals.
func (l *loop) syncOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.endTurn()
	nodeUpgrade, err := l.observe(ctx)
	if err != nil {
		return err
	}
	if l.pulls.any() || len(nodeUpgrade.Status.Pulls) > 0 {
		l.refreshed = time.Time{} // which of them matter is seen on the pods
		if err := l.refresh(ctx); err != nil {
			return err
		}
	}
	if err := l.tell(ctx, nodeUpgrade, nil); err != nil {
		return err
	}
	if err := l.show(ctx, nodeUpgrade, l.showable(l.journals.requests.list, nodeUpgrade)); err != nil {
		return err
	}
	return l.refresh(ctx)
}

// refresh keeps what is seen of this node now for when the API server is away.
func (l *loop) refresh(ctx context.Context) error {
	if now := l.clock.Now(); l.refreshed.IsZero() || now.Sub(l.refreshed) >= refreshPeriod {
		if _, err := l.node.look(ctx, false); err != nil {
			return err
		}
		l.refreshed = now
	}
	return nil
}

// waitForChange returns when the NodeUpgrade was seen to change, or when it is
// time to look anyway.
func (l *loop) waitForChange(ctx context.Context) {
	resync := l.clock.NewTimer(wait.Jitter(resyncPeriod, jitter))
	defer resync.Stop()
	select {
	case <-ctx.Done():
	case <-resync.C():
	case <-l.outOfStep:
	}
}

// pause waits, shorter when ctx is done.
func (l *loop) pause(ctx context.Context, period time.Duration) {
	timer := l.clock.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// Seen is told the states of the NodeUpgrade of this node by who watches it, nil
// when it is gone, one call at a time. It wakes Run when what matters here changed.
func (l *loop) Seen(nodeUpgrade *topsv1.NodeUpgrade) {
	var now topsv1.NodeUpgrade
	if nodeUpgrade != nil {
		now.ObjectMeta = metav1.ObjectMeta{
			UID: nodeUpgrade.UID, OwnerReferences: nodeUpgrade.OwnerReferences, DeletionTimestamp: nodeUpgrade.DeletionTimestamp,
		}
		status := &nodeUpgrade.Status
		now.Status = topsv1.NodeUpgradeStatus{Agent: status.Agent, Requests: status.Requests, Pulls: status.Pulls, Tasks: status.Tasks}
	}
	l.latest.change(func(s *state) { s.nodeUpgrade = later(s.nodeUpgrade, nodeUpgrade) })
	if !reflect.DeepEqual(l.seen, now) {
		l.seen = now
		l.wake()
	}
}

// later returns the newer of two states of a NodeUpgrade: a watch may be behind a read.
func later(before, seen *topsv1.NodeUpgrade) *topsv1.NodeUpgrade {
	if before == nil || seen == nil || before.UID != seen.UID {
		return seen
	}
	if order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, before.ResourceVersion); err == nil && order < 0 {
		return before
	}
	return seen
}
