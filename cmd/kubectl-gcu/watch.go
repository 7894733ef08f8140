package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// rewatchAfter is the wait before a watch that ended, or is not allowed, is repeated.
	rewatchAfter = 2 * time.Second
	// gather is the least time between two reactions to changes: a rollout writes many times a second.
	gather = 200 * time.Millisecond
)

// changes returns a channel that receives when an object with a name, of one of these kinds, may have
// changed, until ctx is done. Where the user may not watch a kind, it receives every few seconds.
func (c *cluster) changes(ctx context.Context, name string, kinds ...client.ObjectList) chan struct{} {
	changed := make(chan struct{}, 1)
	for _, kind := range kinds {
		go follows(ctx, changed, func() (watch.Interface, error) {
			watching, err := client.NewWithWatch(c.config, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
			if err != nil {
				return nil, err
			}
			return watching.Watch(ctx, kind, client.InNamespace(c.namespace), client.MatchingFields{"metadata.name": name})
		})
	}
	return changed
}

// follows sends to changed for each event of a watch, and for each attempt to begin it.
func follows(ctx context.Context, changed chan<- struct{}, begin func() (watch.Interface, error)) {
	for ctx.Err() == nil {
		if w, err := begin(); err == nil {
			for range w.ResultChan() {
				notify(changed)
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchAfter):
			notify(changed)
		}
	}
}

// notify sends to a channel with room for one value, unless it has one.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
