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
	// resyncPeriod is how often the NodeUpgrade is read without an observed change.
	resyncPeriod = 4 * time.Minute
	// refreshPeriod is the least time between reads of this node's pods, which are kept for
	// use without the API server.
	refreshPeriod = time.Minute
	// jitter spreads the agents of many nodes: up to this fraction is added to a period.
	jitter = 0.5
)

// loop reconciles whenever something may have changed.
type loop struct {
	*reconciler
	// refreshed is when the pods were last read.
	refreshed time.Time
	// seen is the relevant part of the NodeUpgrade in the last call of Seen.
	seen topsv1.NodeUpgrade
}

// Run keeps the NodeUpgrade in line with the journals until ctx is done: at start, whenever
// the NodeUpgrade changes, and every few minutes. It retries with backoff while the API
// server is unavailable.
func (l *loop) Run(ctx context.Context) {
	defer l.pulls.close()
	retry := retryFirst
	for connected := true; ctx.Err() == nil; {
		if err := l.syncOnce(ctx); err != nil {
			if connected && ctx.Err() == nil {
				l.log.Error(err, "Cannot publish the requests of this node, retrying")
			} else {
				l.log.V(4).Info("Still cannot publish the requests of this node", "cause", err.Error())
			}
			connected = false
			l.pause(ctx, wait.Jitter(retry, jitter))
			retry = min(2*retry, retryLast)
			continue
		}
		if !connected {
			l.log.Info("The requests of this node are published again")
		}
		connected, retry = true, retryFirst
		l.waitForChange(ctx)
	}
}

// syncOnce brings the NodeUpgrade in line with the journals.
func (l *loop) syncOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	nodeUpgrade, err := l.observe(ctx)
	if err != nil {
		return err
	}
	if l.pulls.any() || len(nodeUpgrade.Status.Pulls) > 0 {
		l.refreshed = time.Time{} // the pods show which pulls matter
		if err := l.refresh(ctx); err != nil {
			return err
		}
	}
	if err := l.send(ctx, nodeUpgrade, nil); err != nil {
		return err
	}
	if err := l.submit(ctx, nodeUpgrade, l.decided(l.journals.Requests.List, nodeUpgrade)); err != nil {
		return err
	}
	return l.refresh(ctx)
}

// refresh reads this node's pods if due, and keeps them for use without the API server.
func (l *loop) refresh(ctx context.Context) error {
	if now := l.clock.Now(); l.refreshed.IsZero() || now.Sub(l.refreshed) >= refreshPeriod {
		if _, err := l.node.look(ctx, false); err != nil {
			return err
		}
		l.refreshed = now
	}
	return nil
}

// waitForChange returns when the NodeUpgrade may have changed, at the next resync, or when
// ctx is done.
func (l *loop) waitForChange(ctx context.Context) {
	resync := l.clock.NewTimer(wait.Jitter(resyncPeriod, jitter))
	defer resync.Stop()
	select {
	case <-ctx.Done():
	case <-resync.C():
	case <-l.outOfStep:
	}
}

// pause waits for a period, or until ctx is done.
func (l *loop) pause(ctx context.Context, period time.Duration) {
	timer := l.clock.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// Seen handles watch updates of this node's NodeUpgrade, nil if it was deleted. Calls must
// not be concurrent. It wakes Run when a relevant part changed.
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

// later returns the newer of two versions of a NodeUpgrade: a watch may lag behind a read.
func later(before, seen *topsv1.NodeUpgrade) *topsv1.NodeUpgrade {
	if before == nil || seen == nil || before.UID != seen.UID {
		return seen
	}
	if order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, before.ResourceVersion); err == nil && order < 0 {
		return before
	}
	return seen
}
