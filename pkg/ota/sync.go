package ota

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
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
	// jitter spreads the agents of many nodes: up to this part is added to a period.
	jitter = 0.5
)

// Run keeps the NodeUpgrade in line with the journal until ctx is done: at
// start, whenever the NodeUpgrade changes, and every few minutes. An API server
// that is away is tried again after growing pauses.
func (in *Inbox) Run(ctx context.Context) {
	retry := retryFirst
	for connected := true; ctx.Err() == nil; {
		version, err := in.syncOnce(ctx)
		if err != nil {
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
		if err := in.waitForChange(ctx, version); err != nil {
			in.log.V(4).Info("Lost sight of the NodeUpgrade", "cause", err.Error())
			in.pause(ctx, wait.Jitter(retryFirst, jitter))
		}
	}
}

// syncOnce brings the NodeUpgrade in line with the journal. It returns the
// resource version it saw.
func (in *Inbox) syncOnce(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := in.takeTurn(ctx); err != nil {
		return "", err
	}
	defer in.endTurn()
	nodeUpgrade, err := in.observe(ctx)
	if err != nil {
		return "", err
	}
	return nodeUpgrade.ResourceVersion, in.show(ctx, nodeUpgrade, in.entries)
}

// waitForChange returns when the NodeUpgrade changed after version, when it is
// time to look anyway, or with an error when it cannot be watched.
func (in *Inbox) waitForChange(ctx context.Context, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := in.cluster.WatchNodeUpgrade(ctx, in.nodeName, version)
	if err != nil {
		return fmt.Errorf("watching NodeUpgrade %s: %w", in.nodeName, err)
	}
	defer watcher.Stop()
	resync := in.clock.NewTimer(wait.Jitter(resyncPeriod, jitter))
	defer resync.Stop()
	select {
	case <-ctx.Done():
	case <-resync.C():
	case <-in.outOfStep:
	case event, open := <-watcher.ResultChan():
		if !open || event.Type == watch.Error {
			return fmt.Errorf("watching NodeUpgrade %s: the API server ended the watch", in.nodeName)
		}
	}
	return nil
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
