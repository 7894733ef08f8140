package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// quietTime is the duration of the idle phase.
const quietTime = time.Minute

// idleUsage is the usage of an idle manager.
type idleUsage struct {
	nodes int
	used  usage
}

// other returns the number of requests except renewals of the lease.
func (s *idleUsage) other() int {
	n := -s.used.renewals
	for _, count := range s.used.requests {
		n += count
	}
	return n
}

// measureQuiet rolls once, so that a rollout exists, lets everything settle, and counts
// the manager's requests to the API server.
func measureQuiet(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	b, err := newRaceCluster(ctx, project, raceNamed("1000").shrunk(o.shrink), progress, ours, theirs)
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
	q := &idleUsage{nodes: b.race.nodes, used: after.since(before)}
	r.results = append(r.results, q)
	b.say("requests %v, of which %d renew the lease; %.2f CPU s", q.used.requests, q.used.renewals, q.used.cpu.Seconds())
	return nil
}

func (s *idleUsage) verdicts() []verdict {
	return []verdict{{"quiet: no requests except for the lease",
		fmt.Sprintf("%d in %s at %d nodes (%s), %.2f CPU s", s.other(), quietTime, s.nodes, methods(s.used), s.used.cpu.Seconds()), s.other() == 0}}
}
