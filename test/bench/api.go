package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/topsops/gcu-operator/test/freeport"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	apiNodes = 100
	// apiTime is the duration of a round, apiWarmUp of the warm-up before it.
	apiTime, apiWarmUp = 15 * time.Second, 5 * time.Second
	// apiRounds is the number of rounds of each kind. The kinds alternate, each being
	// first in every third, so that other load affects all of them.
	apiRounds = 6
)

// company is the other load during the measured requests.
type company int

const (
	// noSlowClients: no other clients.
	noSlowClients company = iota
	// onOtherPort: slow clients on another port, which cost the manager nothing except for
	// sharing its machine.
	onOtherPort
	// onManager: slow clients on the manager.
	onManager
	companies
)

func (c company) String() string {
	return [...]string{"alone", "with slow clients on another port", "with slow clients on the manager"}[c]
}

// apiLoad is the performance of the REST API in each company.
type apiLoad struct {
	gets, puts [companies]served
	// slow is the number of connections of the slow clients.
	slow [companies]int
	used usage
}

// measureAPI deploys the default blueprint, then reads and dry-runs upgrades through
// the REST API, alternating between the companies.
func measureAPI(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c := raceNamed("1000")
	c.nodes = max(1, apiNodes/o.shrink)
	b, err := startRaceCluster(ctx, project, c, progress)
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
	b.say("%d times %d GET/s and %d PUT/s for %s, alone, with %d slow clients on another port, and with as many on the manager",
		apiRounds, getRate, putRate, lasts, slowClients)
	before, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	load := &apiLoad{}
	for round := range apiRounds {
		for i := range companies {
			if err := load.round(ctx, address, lasts, (company(round)+i)%companies); err != nil {
				return err
			}
		}
		b.say("round %d of %d: GET p99 %.1f ms %s, %.1f ms %s, %.1f ms %s", round+1, apiRounds, milliseconds(load.gets[noSlowClients].rounds[round]), noSlowClients,
			milliseconds(load.gets[onOtherPort].rounds[round]), onOtherPort, milliseconds(load.gets[onManager].rounds[round]), onManager)
	}
	after, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	load.used = after.since(before)
	r.results = append(r.results, load)
	for _, s := range slices.Concat(load.gets[:], load.puts[:]) {
		if s.failed > 0 {
			return fmt.Errorf("%d of %d requests failed, the first one: %s", s.failed, s.sent, s.firstFailure)
		}
	}
	return ctx.Err()
}

// round measures one round in one company.
func (l *apiLoad) round(ctx context.Context, address string, lasts time.Duration, in company) error {
	var slow *slowProcess
	var err error
	switch in {
	case onOtherPort:
		slow, err = startSlowClients("")
	case onManager:
		slow, err = startSlowClients(address)
	}
	if err != nil {
		return err
	}
	gets, puts := sendLoad(ctx, address, lasts)
	if slow != nil {
		connections, err := slow.stop()
		if err != nil {
			return err
		}
		l.slow[in] += connections
	}
	l.gets[in].add(gets)
	l.puts[in].add(puts)
	return nil
}

// serveAPI replaces its manager with one that serves the REST API.
func (b *raceCluster) serveAPI(ctx context.Context) (address string, stop func() error, err error) {
	if address, err = freeport.Address(); err != nil {
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
	if err := b.stopManager(); err != nil {
		return "", stop, err
	}
	err = b.startManager(ctx, "--upgrade-api-bind-address", address, "--upgrade-api-auth=none", "--blueprint-dir", folder,
		"--upgrade-api-log-dir", filepath.Join(folder, "op-log"))
	return address, stop, err
}

func (l *apiLoad) tables(out io.Writer) {
	fmt.Fprintf(out, "\nThe REST API, mode none; the manager used %.1f s of CPU and %s at its peak:\n\n", l.used.cpu.Seconds(), megabytes(l.used.peak))
	t := table{{"requests", "company", "sent", "answered per second", "median", "p99", "p99 of a round"}}
	for in := range companies {
		for _, row := range []struct {
			what string
			s    served
		}{{"GET", l.gets[in]}, {"PUT, dry run", l.puts[in]}} {
			t.add(row.what, in.String(), fmt.Sprint(row.s.sent), fmt.Sprintf("%.1f", row.s.perSecond), fmt.Sprintf("%.1f ms", milliseconds(row.s.median)),
				fmt.Sprintf("%.1f ms", milliseconds(row.s.p99)), fmt.Sprintf("%.1f ms", milliseconds(row.s.typical())))
		}
	}
	t.print(out)
}

// verdicts compares the results with the targets. The baseline for slow clients is
// the same clients on another port, because in production they run on other machines.
func (l *apiLoad) verdicts() []verdict {
	const enough = 0.99 // of the requested rate
	gets, puts := &l.gets[noSlowClients], &l.puts[noSlowClients]
	without, with := &l.gets[onOtherPort], &l.gets[onManager]
	slower := float64(with.typical())/float64(max(1, without.typical())) - 1
	fewer := 1 - with.perSecond/max(1, without.perSecond)
	return []verdict{
		{fmt.Sprintf("api: %d GET/s with a p99 of at most %s", getRate, maxAPIWait), fmt.Sprintf("%.0f per second, %.1f ms", gets.perSecond, milliseconds(gets.p99)),
			gets.perSecond >= enough*getRate && gets.p99 <= maxAPIWait},
		{fmt.Sprintf("api: %d PUT/s, dry runs, beside them", putRate), fmt.Sprintf("%.1f per second, p99 %.1f ms", puts.perSecond, milliseconds(puts.p99)), puts.perSecond >= enough*putRate},
		{fmt.Sprintf("api: %d slow clients on the manager change that by at most %.0f %%", slowClients, 100*maxAPIChange),
			fmt.Sprintf("p99 of a round %.1f ms and %.1f ms, %+.0f %%; %.1f %% fewer responses (%d slow connections; alone %.1f ms)", milliseconds(without.typical()),
				milliseconds(with.typical()), 100*slower, 100*fewer, l.slow[onManager], milliseconds(gets.typical())),
			slower <= maxAPIChange && fewer <= maxAPIChange},
	}
}
