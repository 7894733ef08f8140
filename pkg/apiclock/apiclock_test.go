package apiclock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestTheClockIsAheadOfTheLastDate(t *testing.T) {
	now := time.Now()
	clock := &Clock{Now: func() time.Time { return now }}
	if ahead := clock.Ahead(now); ahead != 0 {
		t.Errorf("%s ahead of what is not known", ahead)
	}
	date := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", date) }))
	defer server.Close()
	asks := func() error {
		response, err := (&http.Client{Transport: clock.Around(http.DefaultTransport)}).Get(server.URL)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	for _, off := range []time.Duration{3 * time.Hour, -3 * time.Hour, 0} {
		date = now.Add(-off).UTC().Format(http.TimeFormat)
		if err := asks(); err != nil {
			t.Fatal(err)
		}
		date = "" // the next response has none, and changes nothing
		if err := asks(); err != nil {
			t.Fatal(err)
		}
		for _, later := range []time.Duration{0, time.Hour} {
			if ahead := clock.Ahead(now.Add(later)); (ahead - off).Abs() > 2*time.Second {
				t.Errorf("%s ahead after %s, want %s", ahead, later, off)
			}
		}
	}
	server.Close()
	if err := asks(); err == nil {
		t.Error("the transport hides the error of the next one")
	}
}
