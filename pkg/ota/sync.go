package ota

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// callTimeout bounds what one POST, one GET or one pass of the loop may
	// take at the API server.
	callTimeout = 5 * time.Second
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

// Run keeps the NodeUpgrade in line with the journal until ctx is done: at
// start, whenever the NodeUpgrade changes, and every few minutes. An API server
// that is away is tried again after growing pauses.
func (in *Inbox) Run(ctx context.Context) {
	defer in.pulls.close()
	retry := retryFirst
	for connected := true; ctx.Err() == nil; {
		if err := in.syncOnce(ctx); err != nil {
			if connected && ctx.Err() == nil {
				in.log.Error(err, "Cannot show the requests of this node, trying again until it succeeds")
			} else {
				in.log.V(4).Info("Still cannot show the requests of this node", "cause", err.Error())
			}
			connected = false
			in.pause(ctx, wait.Jitter(retry, jitter))
			retry = min(2*retry, retryLast)
			continue
		}
		if !connected {
			in.log.Info("The requests of this node are shown again")
		}
		connected, retry = true, retryFirst
		in.waitForChange(ctx)
	}
}

// syncOnce brings the NodeUpgrade in line with the journal.
func (in *Inbox) syncOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := in.takeTurn(ctx); err != nil {
		return err
	}
	defer in.endTurn()
	nodeUpgrade, err := in.observe(ctx)
	if err != nil {
		return err
	}
	if in.pulls.any() || len(nodeUpgrade.Status.Pulls) > 0 {
		in.refreshed = time.Time{} // which of them matter is seen on the pods
		if err := in.refresh(ctx); err != nil {
			return err
		}
	}
	if err := in.tell(ctx, nodeUpgrade, nil); err != nil {
		return err
	}
	if err := in.show(ctx, nodeUpgrade, in.showable(nodeUpgrade, in.entries)); err != nil {
		return err
	}
	return in.refresh(ctx)
}

// refresh keeps what is seen of this node now for when the API server is away.
func (in *Inbox) refresh(ctx context.Context) error {
	if now := in.clock.Now(); in.refreshed.IsZero() || now.Sub(in.refreshed) >= refreshPeriod {
		if _, err := in.look(ctx, false); err != nil {
			return err
		}
		in.refreshed = now
	}
	return nil
}

// waitForChange returns when the NodeUpgrade was seen to change, or when it is
// time to look anyway.
func (in *Inbox) waitForChange(ctx context.Context) {
	resync := in.clock.NewTimer(wait.Jitter(resyncPeriod, jitter))
	defer resync.Stop()
	select {
	case <-ctx.Done():
	case <-resync.C():
	case <-in.outOfStep:
	}
}

// view is the part of a NodeUpgrade that matters here.
type view struct {
	uid      types.UID
	owners   []metav1.OwnerReference
	deleting bool
	agent    *topsv1.AgentStatus
	requests []topsv1.UpgradeRequest
	pulls    []topsv1.ImagePull
	tasks    []topsv1.UpgradeTask
}

// Seen is told the states of the NodeUpgrade of this node by who watches it, nil
// when it is gone, one call at a time. It wakes Run when what matters here changed.
func (in *Inbox) Seen(nodeUpgrade *topsv1.NodeUpgrade) {
	var now view
	if nodeUpgrade != nil {
		now = view{
			uid: nodeUpgrade.UID, owners: nodeUpgrade.OwnerReferences, deleting: nodeUpgrade.DeletionTimestamp != nil,
			agent: nodeUpgrade.Status.Agent, requests: nodeUpgrade.Status.Requests, pulls: nodeUpgrade.Status.Pulls, tasks: nodeUpgrade.Status.Tasks,
		}
	}
	in.board.post(func(p *posted) { p.nodeUpgrade = later(p.nodeUpgrade, nodeUpgrade) })
	if !reflect.DeepEqual(in.seen, now) {
		in.seen = now
		in.wake()
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

func (in *Inbox) wake() {
	select {
	case in.outOfStep <- struct{}{}:
	default:
	}
}

// pause waits, shorter when ctx is done.
func (in *Inbox) pause(ctx context.Context, period time.Duration) {
	timer := in.clock.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
