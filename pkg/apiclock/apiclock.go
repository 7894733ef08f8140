// Package apiclock measures how far the clock of this process is ahead of that of the API server, by the Date of its
// responses (RFC 9110, section 6.6.1). Kubelets and controllers write the times of nodes and pods by clocks that are kept with
// that of the API server; the clock of this process may be hours off.
package apiclock

import (
	"net/http"
	"sync"
	"time"
)

// Clock knows the time of the API server since its first response.
type Clock struct {
	// Now returns the time of this process; it must be set.
	Now func() time.Time

	mu sync.Mutex
	// date is the Date of the last response, and received when it came, with the reading of the monotonic clock.
	date, received time.Time
}

// Around returns a transport that notes the Date of the responses that next returns.
func (c *Clock) Around(next http.RoundTripper) http.RoundTripper { return transport{next, c} }

// Ahead returns how far now is ahead of the clock of the API server: negative if it is behind, 0 while nothing
// is known. It may be too much by as long as the last response was on its way, and a second. When the clock of this process
// jumps, it follows at once.
func (c *Clock) Ahead(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return 0
	}
	there := c.date.Add(now.Sub(c.received)) // by the monotonic clock
	return now.Round(0).Sub(there)
}

// note notes the Date of a response. One without is ignored.
func (c *Clock) note(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date, c.received = at, c.Now()
}

type transport struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip has next send a request, and notes the Date of the response.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		t.clock.note(response.Header.Get("Date"))
	}
	return response, err
}
