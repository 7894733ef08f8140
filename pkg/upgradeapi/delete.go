package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// maxWaits is how many foreground deletions may wait at once.
const maxWaits = 64

// deletions serves DELETE.
type deletions struct {
	*cluster
	clock clock.PassiveClock
	// poll is how often a foreground deletion checks whether the gr is gone, deadline how
	// long it waits at most.
	poll, deadline time.Duration
	waits          chan struct{}
	stopping       chan struct{}
	stopped        sync.Once
}

// stop ends the waits.
func (d *deletions) stop() { d.stopped.Do(func() { close(d.stopping) }) }

// delete deletes a gr; with policy foreground it returns when the gr is gone (contract
// statement 71).
func (d *deletions) delete(ctx context.Context, c call) (any, error) {
	foreground, err := request.ReadDeletion(c.body)
	if err != nil {
		return nil, err
	}
	awaits := foreground && !c.dryRun
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	gr, err := d.notRecreating(asking, c.name)
	if err != nil {
		return nil, err
	}
	if awaits {
		select {
		case d.waits <- struct{}{}:
			defer func() { <-d.waits }()
		default:
			return nil, request.Refuse(http.StatusTooManyRequests, "%d foreground deletions wait already: use policy background", maxWaits)
		}
	}
	writing, writer, err := d.writer(asking, c.user)
	if err != nil {
		return nil, err
	}
	if err := remove(writing, writer, gr, c.deleteOptions()...); err != nil {
		return nil, err
	}
	if err := d.free(asking, c.name); err != nil { // one was accepted in between, and would recreate the gr
		return nil, err
	}
	if awaits {
		return nil, d.awaitGone(ctx, c, gr)
	}
	return nil, nil
}

// awaitGone waits until a gr is gone. A caller who disconnects ends the wait, not the
// deletion.
func (d *deletions) awaitGone(ctx context.Context, c call, gr *topsv1.GcuResource) error {
	// The server's write timeout is for requests that do not wait.
	if err := c.deadlines.SetWriteDeadline(d.clock.Now().Add(d.deadline + responseTimeout)); err != nil {
		return fmt.Errorf("waiting for the deletion: %w", err)
	}
	last, end := gr, d.clock.Now().Add(d.deadline)
	return wait.PollUntilContextCancel(ctx, d.poll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-d.stopping:
			return false, request.Refuse(http.StatusServiceUnavailable, "the manager stops: the deletion of %s continues", gr.Name)
		default:
		}
		looking, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		now, err := find(looking, d, gr.Name)
		switch {
		case err == nil && (now == nil || now.UID != gr.UID):
			return true, nil
		case err == nil: // otherwise transient: keep waiting
			last = now
		}
		if !d.clock.Now().Before(end) {
			return false, request.Refuse(http.StatusGatewayTimeout, "%s is not gone after %s, its deletion continues: %s", gr.Name, d.deadline, lastMessage(last))
		}
		return false, nil
	})
}
