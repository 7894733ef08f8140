package upgradeapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestEachCallerIsBounded(t *testing.T) {
	clk := testingclock.NewFakePassiveClock(time.Now())
	l := newLimits(Rates{Reads: 10, Writes: 1}, clk)
	take := func(caller string, reads bool) (n int) {
		for l.allow(caller, reads) {
			n++
		}
		return n
	}
	for _, tt := range []struct {
		caller string
		reads  bool
		want   int
	}{{"a", true, 20}, {"a", false, 2}, {"b", true, 20}} {
		if n := take(tt.caller, tt.reads); n != tt.want {
			t.Errorf("caller %s (reads: %t) is let through %d times, want %d", tt.caller, tt.reads, n, tt.want)
		}
	}
	clk.SetTime(clk.Now().Add(time.Second))
	if n := take("a", true); n != 10 {
		t.Errorf("a second later %d, want 10", n)
	}
	for i := range 3 * callers {
		l.allow(fmt.Sprint("c", i), true)
	}
	if n := len(l.known.Keys()); n > callers {
		t.Errorf("%d callers are remembered", n)
	}
}

func TestAllStrangersTogetherAreBounded(t *testing.T) {
	l := newLimits(Rates{Reads: 10, Writes: 1}, testingclock.NewFakePassiveClock(time.Now())).together(unauthenticatedFactor)
	n := 0
	for i := range 1000 {
		if l.allow(fmt.Sprint("address-", i), false) {
			n++
		}
	}
	if n != 2*unauthenticatedFactor {
		t.Errorf("%d of 1000 addresses are let through, want %d", n, 2*unauthenticatedFactor)
	}
}

func TestTooManyRequestsAreAnswered(t *testing.T) {
	d := newTestServer(t, func(o *Options) { o.Rates = Rates{Reads: 1e-9, Writes: 1e-9} })
	d.succeeds(http.MethodGet, "/gum/v1/gr", "")
	for _, path := range []string{"/gum/v1/gr", "/nowhere", "/gum/v1/openapi.yaml"} {
		if got := d.fails(http.MethodGet, path, "", http.StatusTooManyRequests, "too many requests"); got.header.Get("Retry-After") != "1" {
			t.Errorf("got %v", got.header)
		}
	}
}

// A plan sends a dry run to the API server, and who may only read can ask for it.
func TestPlansCountAsChanges(t *testing.T) {
	d := newTestServer(t, func(o *Options) { o.Rates = Rates{Reads: 100, Writes: 1e-9} })
	d.send(http.MethodPost, "/gum/v1/gr/absent/plan", `{"spec": {}}`)
	for _, path := range []string{"/gum/v1/gr/absent/plan/results", "/gum/v1/gr/absent/plan/results/night"} { // they read plans of the whole fleet
		d.fails(http.MethodGet, path, "", http.StatusTooManyRequests, "too many requests")
	}
	for _, path := range []string{"/gum/v1/gr/absent/plan?file=gr.json", "/gum/v1/gr/absent/plan/file"} {
		d.fails(http.MethodGet, path, "", http.StatusTooManyRequests, "too many requests")
		d.fails(http.MethodPost, strings.TrimSuffix(path, "?file=gr.json"), `{"spec": {}}`, http.StatusTooManyRequests, "too many requests")
	}
	d.succeeds(http.MethodGet, "/gum/v1/gr", "")
}
