package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

const (
	apiNodes = 100
	// getRate and putRate are requests per second, sent at fixed times whether
	// those before were answered or not: who is slow is not waited for.
	getRate, putRate = 500, 20
	// apiTime is how long they are sent in a round, apiWarmUp how long before that.
	apiTime, apiWarmUp = 15 * time.Second, 5 * time.Second
	// apiRounds of each kind take turns, alone first and then beside first, so that what
	// else the machine does is in both.
	apiRounds = 6
	// slowCallers hold connections and send a byte of a header now and then.
	slowCallers = 1000
	slowByte    = time.Second
	// slowArrive is how long they take to come, one after the other: they do not know
	// of each other, so that they neither send nor are hung up on at the same moment.
	slowArrive = 5 * time.Second
	// apiTimeout is when a request is given up.
	apiTimeout = 10 * time.Second
)

// served is how requests of one kind were answered.
type served struct {
	sent, failed  int
	took          []time.Duration
	lasted        time.Duration
	perSecond     float64
	median, p99   time.Duration
	firstFailure  string
	slowConnected int
	// rounds are the p99 of each round.
	rounds []time.Duration
}

// typical is the median of the rounds' p99: one round in which the machine did something
// else does not decide.
func (s *served) typical() time.Duration {
	if len(s.rounds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.rounds))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// apiLoad is what the REST API did under load, alone and with slow callers.
type apiLoad struct {
	gets, puts, slowGets, slowPuts served
	used                           usage
}

// measureAPI deploys the default blueprint, then reads and dry-runs upgrades
// through the REST API, alone and beside callers who send slowly, by turns.
func measureAPI(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c := raceNamed("1000")
	c.nodes = max(1, apiNodes/o.shrink)
	b, err := startBed(ctx, project, c, progress)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	if _, err := b.cluster.Kubectl(ctx, "create", "-f", project.Path(grBlueprint)); err != nil {
		return err
	}
	if _, err := b.cluster.Kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Running", "gr/"+grName, "--timeout="+grTimeout.String()); err != nil {
		return err
	}
	address, stop, err := b.serveAPI(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	lasts := apiTime / time.Duration(o.shrink)
	b.say("%d times %d GET/s and %d PUT/s for %s, alone and beside %d callers who send slowly", apiRounds, getRate, putRate, lasts, slowCallers)
	before, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	load := &apiLoad{}
	for round := range apiRounds {
		for _, slowly := range []bool{round%2 == 1, round%2 == 0} {
			load.round(ctx, address, lasts, slowly)
		}
		b.say("round %d of %d: GET p99 %.1f ms alone, %.1f ms beside slow callers", round+1, apiRounds,
			milliseconds(load.gets.rounds[round]), milliseconds(load.slowGets.rounds[round]))
	}
	after, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	load.used = after.since(before)
	r.api = load
	for _, s := range []served{load.gets, load.puts, load.slowGets, load.slowPuts} {
		if s.failed > 0 {
			return fmt.Errorf("%d of %d requests failed, the first one: %s", s.failed, s.sent, s.firstFailure)
		}
	}
	return ctx.Err()
}

// round measures once, alone or beside slow callers.
func (l *apiLoad) round(ctx context.Context, address string, lasts time.Duration, slowly bool) {
	if !slowly {
		gets, puts := press(ctx, address, lasts)
		l.gets.add(gets)
		l.puts.add(puts)
		return
	}
	slow := dribble(ctx, address, slowCallers)
	gets, puts := press(ctx, address, lasts)
	gets.slowConnected = slow.stop()
	l.slowGets.add(gets)
	l.slowPuts.add(puts)
}

// serveAPI puts a manager with the REST API in the place of the bed's.
func (b *bed) serveAPI(ctx context.Context) (address string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("finding a port: %w", err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", nil, fmt.Errorf("finding a port: %w", err)
	}
	folder, err := os.MkdirTemp("", "gcu-bench-api-")
	if err != nil {
		return "", nil, fmt.Errorf("making a folder for blueprints: %w", err)
	}
	stop = func() error { return os.RemoveAll(folder) }
	blueprint, err := os.ReadFile(b.cluster.Project.Path(grBlueprint))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "gr.json"), blueprint, 0o644)
	}
	if err != nil {
		return "", stop, fmt.Errorf("writing the blueprint: %w", err)
	}
	if err := b.manager.Stop(); err != nil {
		return "", stop, err
	}
	b.manager, err = b.cluster.StartManager(ctx, "--upgrade-api-bind-address", address, "--upgrade-api-auth=none", "--blueprint-dir", folder,
		"--upgrade-api-log-dir", filepath.Join(folder, "op-log"))
	if err != nil {
		return "", stop, err
	}
	b.gauge, err = newGauge(ctx, b.cluster, b.manager)
	return address, stop, err
}

// press sends requests at their rates, warms up first, and returns how they were answered.
func press(ctx context.Context, address string, lasts time.Duration) (gets, puts served) {
	readers, writers := newCallers(), newCallers()
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

// newCallers have as many connections as the answers need that are under way at
// once; who reads does not wait for the connections of those who write.
func newCallers() *http.Client {
	return &http.Client{Timeout: apiTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}}
}

// sendAt sends one request at each of its times. A request counts from the time
// it was due, not from when there was a connection for it.
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

// add counts another round.
func (s *served) add(o served) {
	o.sum()
	s.rounds = append(s.rounds, o.p99)
	s.sent += o.sent
	s.failed += o.failed
	s.firstFailure = cmp.Or(s.firstFailure, o.firstFailure)
	s.took = append(s.took, o.took...)
	s.lasted += o.lasted
	s.slowConnected += o.slowConnected
	s.sum()
}

// sum works out what is told of the answers.
func (s *served) sum() {
	if len(s.took) == 0 {
		return
	}
	slices.Sort(s.took)
	s.perSecond = float64(len(s.took)) / s.lasted.Seconds()
	s.median, s.p99 = s.took[len(s.took)/2], s.took[len(s.took)*99/100]
}

// sendOne returns why a request was not answered with 200, "" when it was.
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

// dribbling are callers who send slowly.
type dribbling struct {
	cancel    context.CancelFunc
	all       sync.WaitGroup
	connected atomic.Int64
}

// dribble starts callers who send a header byte by byte, and come again when
// they are hung up on.
func dribble(ctx context.Context, address string, callers int) *dribbling {
	d := &dribbling{}
	ctx, d.cancel = context.WithCancel(ctx)
	for i := range callers {
		d.all.Go(func() {
			_ = pause(ctx, slowArrive*time.Duration(i)/time.Duration(callers))
			for ctx.Err() == nil {
				if !d.one(ctx, address) {
					_ = pause(ctx, slowByte)
				}
			}
		})
	}
	return d
}

// one is one connection; false when there was none.
func (d *dribbling) one(ctx context.Context, address string) bool {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer connection.Close()
	d.connected.Add(1)
	for text := "GET /gum/v1/gr HTTP/1.1\r\nX-Slow: "; ; text = "x" {
		if _, err := io.WriteString(connection, text); err != nil {
			return true
		}
		if pause(ctx, slowByte) != nil {
			return true
		}
	}
}

// stop ends the callers and returns how many connections they had.
func (d *dribbling) stop() int {
	d.cancel()
	d.all.Wait()
	return int(d.connected.Load())
}

// apiVerdicts judges the load.
func apiVerdicts(l *apiLoad) []verdict {
	if l == nil {
		return nil
	}
	const enough = 0.99 // of what was asked for
	slower := float64(l.slowGets.typical())/float64(max(1, l.gets.typical())) - 1
	fewer := 1 - l.slowGets.perSecond/max(1, l.gets.perSecond)
	return []verdict{
		{fmt.Sprintf("api: %d GET/s with a p99 of at most %s", getRate, maxAPIWait), fmt.Sprintf("%.0f per second, %.1f ms", l.gets.perSecond, milliseconds(l.gets.p99)),
			l.gets.perSecond >= enough*getRate && l.gets.p99 <= maxAPIWait},
		{fmt.Sprintf("api: %d PUT/s, dry runs, beside them", putRate), fmt.Sprintf("%.1f per second, p99 %.1f ms", l.puts.perSecond, milliseconds(l.puts.p99)), l.puts.perSecond >= enough*putRate},
		{fmt.Sprintf("api: %d slow callers change that by at most %.0f %%", slowCallers, 100*maxAPIChange),
			fmt.Sprintf("p99 of a round %.1f ms and %.1f ms, %+.0f %%; %.1f %% fewer answers (%d slow connections)", milliseconds(l.gets.typical()),
				milliseconds(l.slowGets.typical()), 100*slower, 100*fewer, l.slowGets.slowConnected),
			slower <= maxAPIChange && fewer <= maxAPIChange},
	}
}
