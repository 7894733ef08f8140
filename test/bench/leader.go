package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// maxPause limits the time without a decision while another manager takes over.
const maxPause = 30 * time.Second

// succession is one way in which the leader ends during a rollout, and what that costs.
type succession struct {
	// how the leader ends; empty if it goes on.
	how string
	end func(*harness.Process) error
	// spare: a second manager stands by; without it one is started then, as a Deployment does.
	spare bool
	// pause is the longest time between two deletions of the rollout.
	pause time.Duration
	fleetCounts
}

func (s *succession) String() string {
	switch {
	case s.how == "":
		return "the leader goes on"
	case s.spare:
		return s.how + ", a second one stands by"
	}
	return s.how + ", another one is started"
}

// measureLeader rolls a DaemonSet several times, and each time ends the leader in another way.
func measureLeader(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c := race{nodes: 200, count: 10, qps: 200, burst: 400, minStart: shortStart, maxStart: longStart}.shrunk(o.shrink)
	b, err := newRaceCluster(ctx, project, c, progress, ours)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	kill := func(p *harness.Process) error { p.Kill(); return nil }
	for _, s := range []*succession{
		{},
		{how: "SIGTERM", end: (*harness.Process).Stop},
		{how: "SIGTERM", end: (*harness.Process).Stop, spare: true},
		{how: "SIGKILL", end: kill},
		{how: "SIGKILL", end: kill, spare: true},
	} {
		if err := b.succeed(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		b.say("%s: %.1f s without a deletion, done in %.1f s, at most %d down", s, s.pause.Seconds(), s.done.Seconds(), s.most)
		if s.most > c.budget() || s.deleted != c.nodes {
			return fmt.Errorf("%s: %d pods were deleted, at most %d nodes down; want %d and %d", s, s.deleted, s.most, c.nodes, c.budget())
		}
		r.results = append(r.results, s)
	}
	return nil
}

// succeed does one rollout; when a tenth of the nodes is done the leader ends, and another manager is that of the raceCluster.
func (b *raceCluster) succeed(ctx context.Context, s *succession) error {
	next := b.manager
	var err error
	if s.spare {
		if next, err = b.cluster.StartManager(ctx); err != nil {
			return err
		}
	}
	f := b.fleets[ours]
	reached, err := b.begin(ctx, ours)
	if err != nil {
		return err
	}
	if err := b.eventually(ctx, rollTimeout, func() (bool, error) { return f.result().updated >= b.race.nodes/10, nil }); err != nil {
		return err
	}
	if s.end != nil {
		if err := s.end(b.manager); err != nil {
			return err
		}
		if !s.spare {
			if next, err = b.cluster.StartManager(ctx); err != nil {
				return err
			}
		}
		b.manager = next
	}
	if err := await(ctx, reached, rollTimeout); err != nil {
		return fmt.Errorf("%d of %d nodes updated: %w", f.result().updated, b.race.nodes, err)
	}
	s.fleetCounts, s.pause = f.result(), longestPause(f.observer.Outages())
	return pause(ctx, settle)
}

// longestPause returns the longest time from the start of one outage to that of the next.
func longestPause(outages []harness.Outage) time.Duration {
	slices.SortFunc(outages, func(a, b harness.Outage) int { return a.From.Compare(b.From) })
	var longest time.Duration
	for i := 1; i < len(outages); i++ {
		longest = max(longest, outages[i].From.Sub(outages[i-1].From))
	}
	return longest
}

func (s *succession) verdicts() []verdict {
	return []verdict{{fmt.Sprintf("leader: %s: under %s without a decision", s, maxPause),
		fmt.Sprintf("%.1f s; done in %.1f s, %d pods deleted, at most %d down", s.pause.Seconds(), s.done.Seconds(), s.deleted, s.most), s.pause < maxPause}}
}
