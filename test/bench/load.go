package main

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// getRate and putRate are requests per second, sent at fixed times without waiting for
	// earlier responses.
	getRate, putRate = 500, 20
	// apiTimeout is the timeout of a request.
	apiTimeout = 10 * time.Second
)

// served is the statistics of requests of one kind.
type served struct {
	sent, failed int
	took         []time.Duration
	lasted       time.Duration
	perSecond    float64
	median, p99  time.Duration
	firstFailure string
	// rounds are the p99s of the rounds.
	rounds []time.Duration
}

// typical returns the median of the rounds' p99s, which is robust against other load
// during single rounds.
func (s *served) typical() time.Duration {
	if len(s.rounds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.rounds))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// sendLoad warms up, sends requests at their rates, and returns their statistics.
func sendLoad(ctx context.Context, address string, lasts time.Duration) (gets, puts served) {
	readers, writers := newLoadClient(), newLoadClient()
	defer readers.CloseIdleConnections()
	defer writers.CloseIdleConnections()
	url := "http://" + address + "/gum/v1/gr/" + grName
	var both sync.WaitGroup
	both.Go(func() { gets = sendAt(ctx, readers, http.MethodGet, url, "", getRate, lasts) })
	both.Go(func() {
		puts = sendAt(ctx, writers, http.MethodPut, url+"?dryRun=true", `{"file": "gr.json"}`, putRate, lasts)
	})
	both.Wait()
	return gets, puts
}

// newLoadClient returns a client with enough connections for all concurrent requests, so
// that reads do not wait for connections of writes.
func newLoadClient() *http.Client {
	return &http.Client{Timeout: apiTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}}
}

// sendAt sends requests at fixed times. Latency is measured from the scheduled time,
// not from when a connection was available.
func sendAt(ctx context.Context, client *http.Client, method, url, body string, rate int, lasts time.Duration) served {
	var mutex sync.Mutex
	var all sync.WaitGroup
	s := served{}
	begin := time.Now()
	measured := begin.Add(apiWarmUp)
	step := time.Second / time.Duration(rate)
	for due := begin; due.Before(measured.Add(lasts)) && ctx.Err() == nil; due = due.Add(step) {
		if err := pause(ctx, time.Until(due)); err != nil {
			break
		}
		all.Go(func() {
			failure := sendOne(ctx, client, method, url, body)
			took := time.Since(due)
			mutex.Lock()
			defer mutex.Unlock()
			if due.Before(measured) {
				return
			}
			s.sent++
			if failure != "" {
				s.failed++
				s.firstFailure = strings.TrimSpace(failure)
				return
			}
			s.took = append(s.took, took)
		})
	}
	all.Wait()
	s.lasted = time.Since(measured)
	return s
}

// add adds another round.
func (s *served) add(o served) {
	o.sum()
	s.rounds = append(s.rounds, o.p99)
	s.sent += o.sent
	s.failed += o.failed
	s.firstFailure = cmp.Or(s.firstFailure, o.firstFailure)
	s.took = append(s.took, o.took...)
	s.lasted += o.lasted
	s.sum()
}

// sum computes the statistics.
func (s *served) sum() {
	if len(s.took) == 0 {
		return
	}
	slices.Sort(s.took)
	s.perSecond = float64(len(s.took)) / s.lasted.Seconds()
	s.median, s.p99 = s.took[len(s.took)/2], s.took[len(s.took)*99/100]
}

// sendOne sends a request and returns why it was not answered with 200, or "".
func sendOne(ctx context.Context, client *http.Client, method, url, body string) string {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if response.StatusCode != http.StatusOK {
		return response.Status + " " + string(answer)
	}
	return ""
}
