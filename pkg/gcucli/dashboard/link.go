package dashboard

import (
	"context"
	"time"
)

// reachEvery is the time between two requests to the cluster itself, and reachFor how long one may take.
const reachEvery, reachFor = 10 * time.Second, 5 * time.Second

// Link is the connection to a cluster. A reader of caches would not notice that it is lost.
type Link struct {
	reach func(context.Context) error
	// tried is when the last request was sent, and lost why it got no response.
	tried time.Time
	lost  error
}

// NewLink returns a Link; reach asks the cluster itself, as Source.Reach does.
func NewLink(reach func(context.Context) error) *Link { return &Link{reach: reach} }

// Look returns why the caches are not up to date, nil if they are. It sends a request to the cluster if the last one
// was at least reachEvery ago, and always after one failed.
func (l *Link) Look(ctx context.Context, now time.Time) error {
	if l.lost == nil && !l.tried.IsZero() && now.Sub(l.tried) < reachEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachFor)
	defer cancel()
	l.tried, l.lost = now, l.reach(ctx)
	return l.lost
}
