package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// lookAtLeast is the longest time between two checks of a wait: a watch may be silently broken.
const lookAtLeast = 30 * time.Second

// errTimeout is the cause when a wait times out.
var errTimeout = errors.New("timed out")

// errDeleted is the cause when a wait ends because its gr is gone.
var errDeleted = errors.New("was deleted")

// within returns a context with a timeout; 0 means none.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// longestOutage is how long a wait without a timeout goes on while the API server cannot be read.
const longestOutage = 10 * time.Minute

// await calls look at each change until it returns true or an error. On timeout the error says what the
// last call waited for. An API server that cannot be read is waited for, once it was read: an upgrade may restart it.
func await(ctx context.Context, out terminal, timeout time.Duration, changed <-chan struct{}, look func(ctx context.Context) (done bool, waitsFor string, err error)) error {
	ctx, cancel := within(ctx, timeout)
	defer cancel()
	waits := "nothing was seen yet"
	var seen, lost time.Time
	for {
		done, waitsFor, err := look(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
		case err != nil && !seen.IsZero() && isOutage(err) && (timeout > 0 || now.Sub(seen) < longestOutage):
			if lost.Before(seen) {
				fmt.Fprintln(out.ErrOut, plaintext.Line(fmt.Sprintf("%s the API server cannot be read, still waiting: %v", now.Format(time.TimeOnly), err)))
			}
			waits, lost = fmt.Sprintf("the API server cannot be read: %v", err), now
		case err != nil || done:
			return err
		default:
			waits, seen = waitsFor, now
		}
		if next(ctx, changed) {
			continue
		}
		if errors.Is(context.Cause(ctx), errTimeout) {
			return notYet("timed out after %s: %s", timeout, waits)
		}
		return ctx.Err()
	}
}

// cutStream is how client-go words that a connection ended in the middle of an object.
const cutStream = "stream error when reading response body"

// isOutage reports whether a read failed because the API server did not respond, or not as usual. A certificate or a login that is not
// accepted stays so.
func isOutage(err error) bool {
	if status, responded := errors.AsType[*apierrors.StatusError](err); responded {
		return status.ErrStatus.Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
	}
	if call, is := errors.AsType[*url.Error](err); is {
		err = call.Err
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || strings.Contains(err.Error(), cutStream)
}

// next waits for a change, and for more that come with it. It returns false when ctx is done.
func next(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
	case <-changed:
	case <-time.After(lookAtLeast):
	}
	select {
	case <-ctx.Done():
	case <-time.After(gather):
	}
	return ctx.Err() == nil
}

// pauseAfter is how long a wait does not ask again what is left of a rollout, for which all nodes and pods are listed: 10 s from
// 1000 nodes on, 1 s while their number is not known.
func pauseAfter(r *display.Rollout) time.Duration {
	if r == nil || r.Nodes.Total == 0 {
		return time.Second
	}
	return min(time.Duration(r.Nodes.Total)*10*time.Millisecond, 10*time.Second)
}

// follow prints the progress of a gr that exists until it is done, and returns an error if it stops or
// times out. isDone, if not nil, may end it earlier, also where it stops; it is not called at each look, see pauseAfter. checkChanged, if not nil, may end it with an
// error, and returns what is still awaited while the status is stale, "" for nothing.
func follow(ctx context.Context, out terminal, cl *cluster, name string, timeout time.Duration,
	isDone func(context.Context, *topsv1.GcuResource, *display.Status) (bool, error), checkChanged func(context.Context, *topsv1.GcuResource) (unseen string, err error)) error {
	t := &progress{terminal: out, bar: out.onTerminal()}
	defer t.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := cl.changes(ctx, name, &topsv1.GcuResourceList{}, &topsv1.DaemonRolloutList{})
	var askAgain time.Time
	skipped := false // since isDone was called last
	return await(ctx, out, timeout, changed, func(ctx context.Context) (bool, string, error) {
		gr, err := cl.followed(ctx, name)
		if err != nil {
			return false, "", err
		}
		if checkChanged != nil {
			if unseen, err := checkChanged(ctx, gr); err != nil || unseen != "" {
				return false, unseen, err
			}
		}
		s, err := cl.progressOf(ctx, gr)
		if err != nil {
			return false, "", err
		}
		t.tell(&s)
		if s.Outcome.State == display.Done {
			return true, "", nil
		}
		if isDone != nil && (s.Outcome.State == display.Stopped || !time.Now().Before(askAgain)) {
			askAgain, skipped = time.Now().Add(pauseAfter(s.Rollout)), false
			if done, err := isDone(ctx, gr, &s); done || err != nil {
				return done, s.Line(), err
			}
		} else if isDone != nil && !skipped {
			skipped = true
			time.AfterFunc(time.Until(askAgain), func() { notify(changed) })
		}
		if s.Outcome.State == display.Stopped {
			return false, "", notYet("%s: %s; %s", s.Outcome.Reason, s.Outcome.Message, s.Outcome.Do)
		}
		return false, s.Line(), nil
	})
}

// progressOf returns the status of a gr, without its nodes.
func (c *cluster) progressOf(ctx context.Context, gr *topsv1.GcuResource) (display.Status, error) {
	dro, err := c.rollout(ctx, gr.Name)
	if err != nil {
		return display.Status{}, err
	}
	s := display.StatusOf(gr, dro, nil, nil, time.Now())
	return s, c.noteUnseen(ctx, gr, dro, &s)
}

// followed returns a gr, or errDeleted.
func (c *cluster) followed(ctx context.Context, name string) (*topsv1.GcuResource, error) {
	gr := &topsv1.GcuResource{}
	err := c.read(ctx, "", name, gr)
	if apierrors.IsNotFound(err) {
		return nil, notYet("gr %s %w", name, errDeleted)
	}
	return gr, err
}

// progress prints statuses: on a terminal as a progress bar, otherwise as a line per change.
type progress struct {
	terminal
	bar   bool
	last  string
	drawn bool
}

func (p *progress) tell(s *display.Status) {
	if p.bar {
		style := p.style()
		fmt.Fprint(plaintext.Unwrap(p.Out), "\r\x1b[K", plaintext.Text(s.Progress(style, p.width()), style.Colors()...))
		p.drawn = true
		return
	}
	if line := s.Line(); line != p.last {
		fmt.Fprintln(p.Out, time.Now().Format(time.TimeOnly), line)
		p.last = line
	}
}

// end leaves the bar on the screen.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.Out)
	}
}
