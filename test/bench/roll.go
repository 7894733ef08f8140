package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// rollTimeout is the timeout of a rollout that must complete.
const rollTimeout = 15 * time.Minute

// roll is the result of one rollout.
type roll struct {
	fleetCounts
	complete bool
	// used is our manager's usage meanwhile, also during RollingUpdate's rollout.
	used usage
}

// pair is one repetition of a race.
type pair struct {
	race        race
	first       string
	mine, other roll
	// busy is the share of the machine's CPU in use before the case began.
	busy float64
}

// measure runs a race on its own cluster.
func (c race) measure(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c = c.shrunk(o.shrink)
	busy, err := busyNow(ctx)
	if err != nil {
		return err
	}
	b, err := newRaceCluster(ctx, project, c, progress, ours, theirs)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	repetitions := o.repetitions
	if c.once {
		repetitions = 1
	}
	var broken []error
	for range repetitions {
		order := []string{ours, theirs}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		p, err := b.runPair(ctx, order)
		if err != nil {
			return errors.Join(append(broken, err)...)
		}
		p.busy = busy
		r.pairs = append(r.pairs, p)
		broken = append(broken, p.broken())
	}
	return errors.Join(broken...)
}

// runPair does both rollouts, one after the other.
func (b *raceCluster) runPair(ctx context.Context, order []string) (pair, error) {
	p := pair{race: b.race, first: order[0]}
	for _, name := range order {
		limit := rollTimeout
		if name == theirs && b.race.theirLimit > 0 {
			limit = b.race.theirLimit
		}
		measured, err := b.roll(ctx, name, limit)
		if err != nil {
			return p, err
		}
		if name == ours {
			p.mine = measured
		} else {
			p.other = measured
		}
		b.say("%-13s %s", name, measured)
	}
	return p, nil
}

// roll does one rollout. A rollout that does not complete within limit is not an error
// here.
func (b *raceCluster) roll(ctx context.Context, name string, limit time.Duration) (roll, error) {
	if err := b.leaveAlone(ctx, name); err != nil {
		return roll{}, err
	}
	before, err := b.usage(ctx)
	if err != nil {
		return roll{}, err
	}
	reached, err := b.begin(ctx, name)
	if err != nil {
		return roll{}, err
	}
	var r roll
	err = await(ctx, reached, limit)
	switch {
	case err == nil:
		r.complete = true
	case ctx.Err() != nil:
		return r, fmt.Errorf("rolling %s: %w", name, err)
	}
	if err := pause(ctx, settle); err != nil {
		return r, err
	}
	r.fleetCounts = b.fleets[name].result()
	after, err := b.usage(ctx)
	r.used = after.since(before)
	return r, err
}

// begin starts a rollout to the next version. The channel is closed when every reachable node has it.
func (b *raceCluster) begin(ctx context.Context, name string) (reached <-chan struct{}, err error) {
	b.version[name]++
	version := strconv.Itoa(b.version[name])
	reached = b.fleets[name].begin(version, b.race.reachable())
	return reached, b.setVersion(ctx, name, version)
}

// leaveAlone stops the manager before a rollout of RollingUpdate that is timed alone, and starts
// it before one of ours.
func (b *raceCluster) leaveAlone(ctx context.Context, name string) error {
	if !b.race.alone || (b.manager != nil) == (name == ours) {
		return nil
	}
	if name == theirs {
		return b.stopManager()
	}
	if err := b.startManager(ctx); err != nil {
		return err
	}
	return pause(ctx, settle)
}

// usage returns the usage of the manager so far, nothing while it is stopped.
func (b *raceCluster) usage(ctx context.Context) (usage, error) {
	if b.manager == nil {
		return usage{at: time.Now()}, nil
	}
	return b.gauge.read(ctx)
}

// broken returns an error if our rollout did not complete or exceeded its budget, or if
// RollingUpdate did not complete although it should.
func (p *pair) broken() error {
	var errs []error
	if !p.mine.complete {
		errs = append(errs, fmt.Errorf("our rollout did not complete within %s: %d of %d nodes", rollTimeout, p.mine.updated, p.race.reachable()))
	}
	if p.mine.most > p.race.budget() {
		errs = append(errs, fmt.Errorf("our rollout made %d nodes unavailable at once, at most %d are allowed", p.mine.most, p.race.budget()))
	}
	if !p.other.complete && p.race.theirLimit == 0 {
		errs = append(errs, fmt.Errorf("RollingUpdate did not complete within %s: %d of %d nodes", rollTimeout, p.other.updated, p.race.reachable()))
	}
	return errors.Join(errs...)
}

// perPod divides n by the number of replaced pods.
func (r roll) perPod(n int) float64 { return float64(n) / float64(max(r.deleted, 1)) }

// String returns the result in one line.
func (r roll) String() string {
	took := "did not complete"
	if r.complete {
		took = fmt.Sprintf("%.1f s", r.done.Seconds())
	}
	return fmt.Sprintf("%s: %d nodes updated, %d pods deleted, at most %d down, on average %.1f, a restart took %.2f s; our manager: requests %v, %d lease renewals, %.2f CPU s, peak %d MB",
		took, r.updated, r.deleted, r.most, r.mean, r.restart.Seconds(), r.used.requests, r.used.renewals, r.used.cpu.Seconds(), r.used.peak>>20)
}
