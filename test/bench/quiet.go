package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// quietTime is how long nothing happens.
const quietTime = time.Minute

// stillness is what a manager did while nothing happened.
type stillness struct {
	nodes int
	used  usage
}

// other is the number of requests that were not renewals of the lease.
func (s stillness) other() int {
	n := -s.used.renewals
	for _, count := range s.used.requests {
		n += count
	}
	return n
}

// measureQuiet rolls once, so that there is a rollout to be quiet about, lets
// everything settle, and counts what the manager asks of the API server.
func measureQuiet(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	b, err := newBed(ctx, project, raceNamed("1000").shrunk(o.shrink), progress)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	if _, err := b.roll(ctx, ours, rollTimeout); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	before, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, quietTime); err != nil {
		return err
	}
	after, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	r.quiet = &stillness{nodes: b.race.nodes, used: after.since(before)}
	b.say("requests %v, of which %d renew the lease; %.2f CPU s", r.quiet.used.requests, r.quiet.used.renewals, r.quiet.used.cpu.Seconds())
	return nil
}
