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
	b, err := startBed(ctx, project, c, progress)
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
	r.gr = f
	b.say("%d passes: %.2f ms of CPU each, %d writes; memory %s, %s at its peak", f.passes, milliseconds(f.perPass()), f.writes(),
		megabytes(f.used.rss), megabytes(f.used.peak))
	return nil
}

// force makes the manager reconcile the gr repeatedly.
func (b *bed) force(ctx context.Context, f *unchanged) error {
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
