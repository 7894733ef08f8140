package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// setGroups DaemonSets have setNodes nodes each, and grGroups GcuResources grNodes: each node has one of
	// them, and one node of each may be down.
	setGroups, setNodes = 200, 4
	grGroups, grNodes   = 20, 10
	// groupLabel of a node names its group.
	groupLabel = "bench/group"
	// maxShare is how much longer than on average a group may take per node, maxManyCost how much more the manager may
	// use than for one group.
	maxShare, maxManyCost = 2.0, 1.5
)

// group is an annotated DaemonSet or GcuResource of its own nodes.
type group struct {
	name  string
	isGr  bool
	nodes []string
	// asked is when it got its new version; waited and took are the time from then until the first deletion, and until
	// all nodes were done. most is how many nodes were down at once.
	asked        time.Time
	waited, took time.Duration
	most         int
}

// perNode is the mean time per node: they go one after the other.
func (g *group) perNode() time.Duration { return g.took / time.Duration(len(g.nodes)) }

// manyGroups is what many rollouts at once cost, and one rollout with as many pods and as many nodes down at once.
type manyGroups struct {
	groups []*group
	used   usage
	one    roll
}

// measureGroups rolls many groups at once, then one group, each with a manager that was started for it.
func measureGroups(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	m := &manyGroups{groups: drawGroups(o.shrink)}
	c := race{qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart, count: len(m.groups)}
	for _, g := range m.groups {
		c.nodes += len(g.nodes)
	}
	b, err := newRaceCluster(ctx, project, c, progress, ours)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	if err := b.deployGroups(ctx, m.groups); err != nil {
		return err
	}
	if err := b.rollGroups(ctx, m); err != nil {
		return err
	}
	b.say("%d groups: %s per node on average, %s at most; %.2f CPU s, peak %s", len(m.groups), m.mean(), m.slowest().perNode(), m.used.cpu.Seconds(), megabytes(m.used.peak))
	if err := b.startAgain(ctx); err != nil {
		return err
	}
	if m.one, err = b.roll(ctx, ours, rollTimeout); err != nil {
		return err
	}
	b.say("one group: %s", m.one)
	r.results = append(r.results, m)
	return m.broken(c)
}

// drawGroups returns the groups, with the names of their nodes.
func drawGroups(shrink int) (groups []*group) {
	next := 0
	add := func(kind string, n, nodes int, isGr bool) {
		for i := range max(1, n/shrink) {
			g := &group{name: fmt.Sprintf("%s-%d", kind, i), isGr: isGr}
			for range nodes {
				next++
				g.nodes = append(g.nodes, fmt.Sprintf("node-%04d", next))
			}
			groups = append(groups, g)
		}
	}
	add("set", setGroups, setNodes, false)
	add("gr", grGroups, grNodes, true)
	return groups
}

// deployGroups creates all groups, and waits until they are settled.
func (b *raceCluster) deployGroups(ctx context.Context, groups []*group) error {
	begin, pods := time.Now(), 0
	err := inParallel(groups, func(g *group) error {
		for _, node := range g.nodes {
			label := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, groupLabel, g.name))
			if err := b.cluster.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, label); err != nil {
				return fmt.Errorf("labeling %s: %w", node, err)
			}
		}
		return b.cluster.Client.Create(ctx, b.objectOf(g))
	})
	if err != nil {
		return err
	}
	for _, g := range groups {
		pods += len(g.nodes)
	}
	err = b.eventually(ctx, deployTimeout, func() (bool, error) {
		var rollouts topsv1.DaemonRolloutList
		if err := b.cluster.Client.List(ctx, &rollouts); err != nil {
			return false, fmt.Errorf("listing DaemonRollouts: %w", err)
		}
		updated := 0
		for _, r := range rollouts.Items {
			if r.Name != ours {
				updated += int(r.Status.Updated)
			}
		}
		return updated == pods, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until all groups are deployed: %w", err)
	}
	b.say("%d groups deployed in %.0f s", len(groups), time.Since(begin).Seconds())
	return b.startAgain(ctx)
}

// objectOf returns the DaemonSet or GcuResource of a group, at its first version.
func (b *raceCluster) objectOf(g *group) client.Object {
	selector := map[string]string{groupLabel: g.name}
	ds := b.daemonSet(ours)
	ds.Annotations[topsv1.AnnotationMaxUnavailable] = "1"
	if g.isGr {
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: g.name, Annotations: ds.Annotations},
			Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{Name: g.name, Version: "1", NodeSelector: selector}}}
	}
	ds.Name, ds.Spec.Template.Spec.NodeSelector = g.name, selector
	ds.Spec.Selector.MatchLabels[nameLabel], ds.Spec.Template.Labels[nameLabel] = g.name, g.name
	return ds
}

// rollGroups gives all groups their second version at once, and follows them until every node has it.
func (b *raceCluster) rollGroups(ctx context.Context, m *manyGroups) error {
	watched, end := context.WithCancel(ctx)
	defer end()
	observer, err := harness.Observe(watched, b.cluster, nameLabel+"!="+ours)
	if err != nil {
		return err
	}
	before, err := b.usage(ctx)
	if err != nil {
		return err
	}
	observer.Reset()
	if err := inParallel(m.groups, func(g *group) error { return b.upgrade(ctx, g) }); err != nil {
		return err
	}
	err = b.eventually(ctx, rollTimeout, func() (bool, error) { return m.follow(observer), nil })
	if err != nil {
		return fmt.Errorf("rolling %d groups: %w", len(m.groups), err)
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, err := b.usage(ctx)
	m.used = after.since(before)
	for _, g := range m.groups {
		g.most = observer.MostOf(g.nodes...)
	}
	return err
}

// upgrade gives a group its second version.
func (b *raceCluster) upgrade(ctx context.Context, g *group) error {
	g.asked = time.Now()
	object, patch := client.Object(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.name}}),
		fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{%q:"2"}}}}}`, versionLabel)
	if g.isGr {
		object, patch = &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: g.name}}, `{"spec":{"gfd":{"version":"2"}}}`
	}
	if err := b.cluster.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("patching %s: %w", g.name, err)
	}
	return nil
}

// follow notes how far the groups are, and reports whether all nodes are done.
func (m *manyGroups) follow(observer *harness.Observer) bool {
	outages := map[string]harness.Outage{}
	for _, o := range observer.Outages() {
		outages[o.Node] = o
	}
	done := true
	for _, g := range m.groups {
		var first, last time.Time
		for _, node := range g.nodes {
			o, began := outages[node]
			if !began || o.To.IsZero() {
				done = false
				continue
			}
			if first.IsZero() || o.From.Before(first) {
				first = o.From
			}
			if o.To.After(last) {
				last = o.To
			}
		}
		g.waited, g.took = first.Sub(g.asked), last.Sub(g.asked)
	}
	return done
}

// mean is the mean time per node of all groups, slowest the group that took the longest per node.
func (m *manyGroups) mean() time.Duration {
	var sum time.Duration
	for _, g := range m.groups {
		sum += g.perNode()
	}
	return sum / time.Duration(len(m.groups))
}

func (m *manyGroups) slowest() *group {
	return slices.MaxFunc(m.groups, func(a, b *group) int { return int(a.perNode() - b.perNode()) })
}

// broken returns an error if a group exceeded its budget, or the one rollout did.
func (m *manyGroups) broken(c race) error {
	for _, g := range m.groups {
		if g.most > 1 {
			return fmt.Errorf("%d nodes of %s were down at once, one may be", g.most, g.name)
		}
	}
	p := pair{race: c, mine: m.one, other: roll{complete: true}}
	return p.broken()
}

func (m *manyGroups) tables(out io.Writer) {
	fmt.Fprintf(out, "\nMany rollouts at once; in each one node may be down, and in the one rollout as many:\n\n")
	t := table{{"rollouts", "pods", "took", "per node and group", "slowest", "longest wait for the first deletion", "CPU", "peak", "by method"}}
	var took, waited time.Duration
	for _, g := range m.groups {
		took, waited = max(took, g.took), max(waited, g.waited)
	}
	t.add(strconv.Itoa(len(m.groups)), strconv.Itoa(m.one.deleted), fmt.Sprintf("%.1f s", took.Seconds()), fmt.Sprintf("%.2f s", m.mean().Seconds()),
		fmt.Sprintf("%.2f s (%s)", m.slowest().perNode().Seconds(), m.slowest().name), fmt.Sprintf("%.1f s", waited.Seconds()), fmt.Sprintf("%.1f s", m.used.cpu.Seconds()), megabytes(m.used.peak), methods(m.used))
	t.add("1", strconv.Itoa(m.one.deleted), m.one.time(), fmt.Sprintf("%.2f s", m.one.restart.Seconds()), "-", "-", fmt.Sprintf("%.1f s", m.one.used.cpu.Seconds()), megabytes(m.one.used.peak), methods(m.one.used))
	t.print(out)
}

func (m *manyGroups) verdicts() []verdict {
	share := m.slowest().perNode().Seconds() / m.mean().Seconds()
	cpu, memory := m.used.cpu.Seconds()/m.one.used.cpu.Seconds(), float64(m.used.peak)/float64(m.one.used.peak)
	return []verdict{
		{fmt.Sprintf("groups: none takes more than %.0f times the mean time per node", maxShare), fmt.Sprintf("%.2f times", share), share <= maxShare},
		{fmt.Sprintf("groups: at most %.1f times the CPU of one with as many pods", maxManyCost), fmt.Sprintf("%.2f times, %.1f s", cpu, m.used.cpu.Seconds()), cpu <= maxManyCost},
		{fmt.Sprintf("groups: at most %.1f times the memory", maxManyCost), fmt.Sprintf("%.2f times, %s", memory, megabytes(m.used.peak)), memory <= maxManyCost},
	}
}

// startAgain replaces the manager, so that its peak is that of what comes next.
func (b *raceCluster) startAgain(ctx context.Context) error {
	if err := b.stopManager(); err != nil {
		return err
	}
	if err := b.startManager(ctx); err != nil {
		return err
	}
	return pause(ctx, settle)
}

// eventually waits until something holds.
func (b *raceCluster) eventually(ctx context.Context, limit time.Duration, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// inParallel does something for all groups, a few at a time.
func inParallel(groups []*group, do func(*group) error) error {
	var all errgroup.Group
	all.SetLimit(16)
	for _, g := range groups {
		all.Go(func() error { return do(g) })
	}
	return all.Wait()
}
