package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/client-go/rest"
)

// answers is a RoundTripper whose every answer has a status and a body.
type answers struct {
	status int
	body   io.Reader
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.body == nil {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(a.body)}, nil
}

func TestWhichWatchesGoOn(t *testing.T) {
	const pods, all = "/api/v1/pods?watch=true&resourceVersion=7", "/api/v1/pods?watch=true&sendInitialEvents=true"
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for _, tt := range []struct {
		name, path string
		answer     answers
		read       int
		goesOn     bool
	}{
		{"one that has sent nothing yet", pods, answers{200, strings.NewReader("events")}, 0, true},
		{"one that sends", pods, answers{200, strings.NewReader("events")}, 3, true},
		{"one that has ended", pods, answers{200, strings.NewReader("events")}, 7, false},
		{"one that broke", pods, answers{200, iotest.ErrReader(errors.New("reset by peer"))}, 1, false},
		{"one that was refused", pods, answers{429, strings.NewReader("events")}, 0, false},
		{"one that was not answered", pods, answers{}, 0, false},
		{"a list", "/api/v1/pods?limit=500", answers{200, strings.NewReader("list")}, 0, false},
		{"another resource", "/api/v1/nodes?watch=true", answers{200, strings.NewReader("events")}, 0, false},
		{"one in the middle of the list", all, answers{200, strings.NewReader("pods " + end)}, len(end) / 2, false},
		{"one after the list", all, answers{200, strings.NewReader("pods " + end + " more")}, len(end) + 6, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &watches{resources: []string{"pods"}, changed: make(chan struct{}, 1), open: map[string]*watched{}}
			at, err := url.Parse("https://api" + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			response, err := w.around(tt.answer).RoundTrip(&http.Request{URL: at})
			if err == nil {
				_, _ = io.CopyN(io.Discard, iotest.OneByteReader(response.Body), int64(tt.read)) // ends early where the body does
			}
			if behind := w.behind(); (behind == nil) != tt.goesOn || behind != nil && !strings.Contains(behind.Error(), "pods") {
				t.Errorf("behind: %v", behind)
			}
			if said := len(w.changed) > 0; tt.goesOn && !said {
				t.Error("nobody hears that it goes on")
			}
			if response != nil && response.Body.Close() == nil && w.behind() == nil {
				t.Error("it goes on after it is closed")
			}
		})
	}
}

// TestAWatchThatWasRepeatedGoesOn: also if its predecessor is closed later.
func TestAWatchThatWasRepeatedGoesOn(t *testing.T) {
	w := &watches{resources: []string{"pods"}, changed: make(chan struct{}, 1), open: map[string]*watched{}}
	begin := func() *http.Response {
		response, err := w.around(answers{200, strings.NewReader("events")}).RoundTrip(&http.Request{URL: &url.URL{Path: "/api/v1/pods", RawQuery: "watch=true"}})
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	first, second := begin(), begin()
	if err := errors.Join(first.Body.Close(), w.behind()); err != nil {
		t.Error(err)
	}
	if err := second.Body.Close(); err != nil || w.behind() == nil {
		t.Errorf("it goes on after both are closed (%v)", err)
	}
}

// unwatched is a RoundTripper that lets everything through but watches of a resource, while it is cut.
type unwatched struct {
	http.RoundTripper
	resource string
	mu       sync.Mutex
	isCut    bool
	open     []io.Closer
}

func (u *unwatched) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.URL.Query().Get("watch") != "true" || !strings.HasSuffix(r.URL.Path, u.resource) {
		return u.RoundTripper.RoundTrip(r)
	}
	if u.isCut {
		return nil, errors.New("it is cut")
	}
	response, err := u.RoundTripper.RoundTrip(r)
	if err == nil {
		u.open = append(u.open, response.Body)
	}
	return response, err
}

func (u *unwatched) cut(t *testing.T, is bool) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.isCut = is; len(u.open) > 0; u.open = u.open[1:] {
		if err := u.open[0].Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheDashboardIsNotLiveBeforeItsWatchesAre: an API server that answers again is not yet watched again.
func TestTheDashboardIsNotLiveBeforeItsWatchesAre(t *testing.T) {
	cl := clusterOf(t, newSite(t))
	nodes := &unwatched{resource: "/nodes"}
	cl.config = rest.CopyConfig(cl.config)
	cl.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		nodes.RoundTripper = next
		return nodes
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	source, err := newSource(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(what string, is func(error) bool) {
		t.Helper()
		for !is(source.Reach(ctx)) {
			select {
			case <-source.Changed():
			case <-time.After(50 * time.Millisecond):
			}
			if ctx.Err() != nil {
				t.Fatalf("it never becomes %s: %v", what, source.watches.behind())
			}
		}
	}
	live := func(err error) bool { return err == nil }
	becomes("live", live)
	nodes.cut(t, true)
	becomes("behind", func(err error) bool {
		return err != nil && strings.HasPrefix(err.Error(), "reconnecting: ") && strings.HasSuffix(err.Error(), ": nodes")
	})
	nodes.cut(t, false)
	becomes("live again", live)
}
