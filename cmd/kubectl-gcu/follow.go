package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

// pollEvery is how often the API server is asked while something is waited for.
const pollEvery = 2 * time.Second

// errTimeout is why a wait ended.
var errTimeout = errors.New("timed out")

// within is a context that ends after a time; 0 is without end.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// poll asks look again and again until it returns true or an error. When the time
// is over the error says what is waiting for, as the last look said it.
func poll(ctx context.Context, timeout time.Duration, look func(ctx context.Context) (done bool, waitsFor string, err error)) error {
	ctx, cancel := within(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	waits := "nothing was seen yet"
	for {
		done, waitsFor, err := look(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil || done:
			return err
		default:
			waits = waitsFor
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeout) {
				return notYet("timed out after %s: %s", timeout, waits)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// follow tells how a gr goes on until it is done; an error says that it stopped or
// that the time is over. enough, if not nil, tells when it is done besides; unlike, if
// not nil, ends it with an error of its own.
func follow(ctx context.Context, out terminal, cl *cluster, name string, timeout time.Duration,
	enough func(context.Context, *topsv1.GcuResource, *view.Status) (bool, error), unlike func(*topsv1.GcuResource) error) error {
	t := &progress{terminal: out, bar: out.onTerminal()}
	defer t.end()
	return poll(ctx, timeout, func(ctx context.Context) (bool, string, error) {
		gr, err := cl.resource(ctx, []string{name})
		if err != nil {
			return false, "", err
		}
		if unlike != nil {
			if err := unlike(gr); err != nil {
				return false, "", err
			}
		}
		dro, err := cl.rollout(ctx, name)
		if err != nil {
			return false, "", err
		}
		s := view.StatusOf(gr, dro, nil, nil, time.Now())
		t.tell(&s)
		switch s.Outcome.State {
		case view.Done:
			return true, "", nil
		case view.Stopped:
			return false, "", notYet("%s: %s; %s", s.Outcome.Reason, s.Outcome.Message, s.Outcome.Do)
		}
		if enough != nil {
			done, err := enough(ctx, gr, &s)
			return done, s.Line(), err
		}
		return false, s.Line(), nil
	})
}

// progress tells of one status after the other: on a terminal with a bar that is
// drawn again, else with a line for each that differs.
type progress struct {
	terminal
	bar   bool
	last  string
	drawn bool
}

func (p *progress) tell(s *view.Status) {
	if p.bar {
		fmt.Fprint(p.Out, "\r\x1b[K", s.Progress(p.style(), p.width()))
		p.drawn = true
		return
	}
	if line := s.Line(); line != p.last {
		fmt.Fprintln(p.Out, time.Now().Format(time.TimeOnly), line)
		p.last = line
	}
}

// end leaves the bar where it is.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.Out)
	}
}
