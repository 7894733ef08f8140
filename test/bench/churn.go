package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/harness"
)

// Targets of the case churn: what may be different from a calm rollout.
const (
	maxChurnTime   = 1.5
	maxChurnWrites = 0.3 // other writes per node
	maxChurnCPU    = 2.0
)

const (
	// flapShare is one in how many nodes flaps: is NotReady for flapDown in every flapEvery.
	flapShare = 20
	flapEvery = 20 * time.Second
	flapDown  = 5 * time.Second
)

// churn is what rollouts cost when nodes come and go.
type churn struct {
	race race
	// calm is our rollout on a calm cluster.
	calm roll
	// flapping and limit are those of both while nodes flap, and on a control plane at its limit.
	flapping, limit map[string]roll
}

// limitRace is a rollout on a control plane that has no CPU left: nodes renew their Leases every
// two seconds, and are NotReady after ten.
func limitRace(calm race) race {
	calm.grace, calm.lease = 10*time.Second, 8*time.Second
	return calm
}

// measureChurn measures all rollouts of the case.
func measureChurn(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) error {
	calm := raceNamed("proven").shrunk(o.shrink)
	c := &churn{race: calm, flapping: map[string]roll{}, limit: map[string]roll{}}
	r.results = append(r.results, c)
	return errors.Join(c.measureFlapping(ctx, project, progress), c.measureLimit(ctx, project, progress))
}

func (c *churn) measureFlapping(ctx context.Context, project harness.Project, progress io.Writer) (err error) {
	b, err := newRaceCluster(ctx, project, c.race, progress, ours, theirs)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	if c.calm, err = b.roll(ctx, ours, rollTimeout); err != nil {
		return err
	}
	b.say("calm          %s", c.calm)
	stop := b.flap(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	return b.rollBoth(ctx, c.flapping)
}

func (c *churn) measureLimit(ctx context.Context, project harness.Project, progress io.Writer) (err error) {
	b, err := newRaceCluster(ctx, project, limitRace(c.race), progress, ours, theirs)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	return b.rollBoth(ctx, c.limit)
}

// rollBoth does both rollouts, theirs first.
func (b *raceCluster) rollBoth(ctx context.Context, into map[string]roll) error {
	for _, name := range []string{theirs, ours} {
		measured, err := b.roll(ctx, name, rollTimeout)
		if err != nil {
			return err
		}
		into[name] = measured
		b.say("%-13s %s", name, measured)
	}
	return nil
}

// flap lets one in flapShare nodes flap until the returned function is called, which returns what
// went wrong.
func (b *raceCluster) flap(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var failed error
		for i := 0; ctx.Err() == nil && failed == nil; i = (i + 1) % (b.race.nodes / flapShare) {
			failed = b.flapOnce(ctx, fmt.Sprintf("node-%04d", 1+i*flapShare))
			_ = pause(ctx, flapEvery/time.Duration(b.race.nodes/flapShare))
		}
		done <- failed
	}()
	return func() error {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("letting nodes flap: %w", err)
		}
		return nil
	}
}

// flapOnce makes a node NotReady for a while, as a kubelet that is not well: it is taken away from
// the simulated kubelets, which would report it as Ready again.
func (b *raceCluster) flapOnce(ctx context.Context, node string) error {
	if err := b.cluster.SetOnline(ctx, node, false); err != nil {
		return err
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","lastTransitionTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	if err := b.cluster.Client.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, []byte(status))); err != nil {
		return err
	}
	time.AfterFunc(flapDown, func() { _ = b.cluster.SetOnline(context.WithoutCancel(ctx), node, true) }) // a node that stays away shows in the result
	return nil
}

// verdicts returns the verdicts for both kinds of churn, as far as they were measured.
func (c *churn) verdicts() []verdict {
	return append(c.judge("churn, 5 % flapping", c.flapping), c.judge("churn, control plane at its limit", c.limit)...)
}

func (c *churn) judge(name string, rolls map[string]roll) []verdict {
	mine, other := rolls[ours], rolls[theirs]
	if mine.used.requests == nil {
		return nil
	}
	slower, cpu := mine.done.Seconds()/c.calm.done.Seconds(), mine.used.cpu.Seconds()/c.calm.used.cpu.Seconds()
	writes := float64(mine.used.otherWrites()) / float64(c.race.nodes)
	return []verdict{
		{fmt.Sprintf("%s: done within %.1f times the calm time", name, maxChurnTime),
			fmt.Sprintf("%s, calm %s: %.2f; RollingUpdate %s", mine.time(), c.calm.time(), slower, other.time()), mine.complete && slower <= maxChurnTime},
		{fmt.Sprintf("%s: at most %d nodes down", name, c.race.budget()), fmt.Sprintf("%d, RollingUpdate %d", mine.most, other.most), mine.most <= c.race.budget()},
		{fmt.Sprintf("%s: at most %.1f other writes per node", name, maxChurnWrites), fmt.Sprintf("%.2f (%s)", writes, methods(mine.used)), writes <= maxChurnWrites},
		{fmt.Sprintf("%s: at most %.0f times the CPU", name, maxChurnCPU), fmt.Sprintf("%.1f s, calm %.1f s", mine.used.cpu.Seconds(), c.calm.used.cpu.Seconds()), cpu <= maxChurnCPU},
	}
}
