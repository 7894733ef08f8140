package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	grBlueprint = "examples/gcu-resource.json"
	grName      = "enflame-gcu-resource"
	// grTimeout limits the deployment: five components, one after the other.
	grTimeout = 20 * time.Minute
	// touches is the number of forced passes, touchPause the time between two; a shorter
	// one would merge passes.
	touches    = 200
	touchPause = 50 * time.Millisecond
	// touchKey is an annotation without meaning.
	touchKey = "bench/touched"
)

// unchanged is the work of a manager for an unchanged gr on many nodes.
type unchanged struct {
	nodes int
	// deployed is the duration of the deployment.
	deployed time.Duration
	// passes is the number of passes of the gcuresource controller, used the usage of the
	// whole manager during them.
	passes int
	used   usage
}

// perPass returns the CPU time of one pass; 0 without passes.
func (f *unchanged) perPass() time.Duration {
	if f.passes == 0 {
		return 0
	}
	return f.used.cpu / time.Duration(f.passes)
}

// writes returns the number of writes without the lease.
func (f *unchanged) writes() int { return f.used.otherWrites() + f.used.requests["DELETE"] }

// measureGr deploys the default blueprint, lets everything settle, and forces passes
// with an annotation without meaning.
func measureGr(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	c := raceNamed("1000").shrunk(o.shrink)
	b, err := startRaceCluster(ctx, project, c, progress)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	f := &unchanged{nodes: c.nodes}
	began := time.Now()
	if _, err := b.cluster.Kubectl(ctx, "create", "-f", project.Path(grBlueprint)); err != nil {
		return err
	}
	if _, err := b.cluster.Kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Running", "gr/"+grName, "--timeout="+grTimeout.String()); err != nil {
		return err
	}
	f.deployed = time.Since(began)
	b.say("%s deployed on %d nodes in %.0f s", grName, c.nodes, f.deployed.Seconds())
	if err := pause(ctx, 2*settle); err != nil {
		return err
	}
	if err := b.force(ctx, f); err != nil {
		return err
	}
	r.results = append(r.results, f)
	b.say("%d passes: %.2f ms of CPU each, %d writes; memory %s, %s at its peak", f.passes, milliseconds(f.perPass()), f.writes(),
		megabytes(f.used.rss), megabytes(f.used.peak))
	return nil
}

// force makes the manager reconcile the gr repeatedly.
func (b *raceCluster) force(ctx context.Context, f *unchanged) error {
	passes, err := passesOf(ctx, b.manager)
	if err != nil {
		return err
	}
	before, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	for i := range touches {
		gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: grName}}
		touch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, touchKey, strconv.Itoa(i))
		if err := b.cluster.Client.Patch(ctx, gr, client.RawPatch("application/merge-patch+json", []byte(touch))); err != nil {
			return fmt.Errorf("touching GcuResource %s: %w", grName, err)
		}
		if err := pause(ctx, touchPause); err != nil {
			return err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, err := b.gauge.read(ctx)
	if err != nil {
		return err
	}
	f.used = after.since(before)
	now, err := passesOf(ctx, b.manager)
	f.passes = now - passes
	if err == nil && f.passes < touches/2 {
		err = fmt.Errorf("only %d passes for %d touches", f.passes, touches)
	}
	return err
}

func (f *unchanged) tables(out io.Writer) {
	fmt.Fprint(out, "\nA GcuResource with five components, unchanged:\n\n")
	t := table{{"nodes", "deployed in", "passes", "CPU per pass, all controllers", "writes", "requests", "memory", "peak"}}
	t.add(fmt.Sprint(f.nodes), fmt.Sprintf("%.0f s", f.deployed.Seconds()), fmt.Sprint(f.passes), fmt.Sprintf("%.2f ms", milliseconds(f.perPass())),
		fmt.Sprint(f.writes()), methods(f.used), megabytes(f.used.rss), megabytes(f.used.peak))
	t.print(out)
}

func (f *unchanged) verdicts() []verdict {
	return []verdict{
		{"gr: a pass over an unchanged one writes nothing", fmt.Sprintf("%d writes in %d passes at %d nodes", f.writes(), f.passes, f.nodes), f.writes() == 0},
		{fmt.Sprintf("gr: a pass over an unchanged one takes under %s of CPU", maxPass), fmt.Sprintf("%.2f ms", milliseconds(f.perPass())), f.perPass() < maxPass},
		{fmt.Sprintf("gr: manager at most %s", megabytes(maxMemory)), megabytes(f.used.peak) + " at its peak", f.used.peak <= maxMemory},
	}
}
