package daemonupdater

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simMachineOf returns the state machine that decides about operations.
var simMachineOf = func() *operation.Machine {
	m, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		panic(err) // the default book is valid
	}
	return m
}()

// simOperator is the production controller of NodeUpgrades in a manager, with its work queue.
type simOperator struct {
	r       *nodeupgrade.Reconciler
	watches []nodeupgrade.Watch
	ready   map[string]bool
	timers  map[string]time.Time
	limiter workqueue.TypedRateLimiter[string]
	// jobs in progress, by node; job is the one that runs.
	jobs map[string]*simJob
	job  *simJob
}

// simSweep is the name of the job that sweeps; no node has it.
const simSweep = ""

// simJob is a reconcile of a node in progress, or a sweep of all. It is a coroutine: it yields a
// write, and goes on when that is served. What it reads is served at once.
type simJob struct {
	simActor
	node   string
	next   func() (*simCall, bool)
	yield  func(*simCall) bool
	call   *simCall // that waits
	result ctrl.Result
	err    error

	// what it last read past the cache, and the pods that it read there or from the cache.
	seen    *corev1.Node
	upgrade *topsv1.NodeUpgrade
	sets    map[types.UID]*appsv1.DaemonSet
	pods    map[types.UID]*corev1.Pod
}

// newOperator returns a controller that remembers nothing, in a seed with operations.
func (m *simManager) newOperator() simOperator {
	if m.w.ops == nil {
		return simOperator{}
	}
	registry := prometheus.NewRegistry()
	cached, live := &simOperatorClient{m: m}, &simOperatorClient{m: m, live: true}
	r := nodeupgrade.New(nodeupgrade.Options{Client: cached, Live: live, Namespace: "gcu-system", Machine: simMachineOf, Recorder: simRecorder{}, Clock: m.now, Ahead: m.ahead,
		Metrics: nodeupgrade.NewMetrics(registry),
		Drainer: drain.Drainer{Live: live, Evictor: live, Metrics: drain.NewMetrics(registry),
			Self: eviction.Self{NamespacedName: client.ObjectKey{Namespace: "gcu-system", Name: m.name}}}})
	return simOperator{r: r, watches: r.Watches(), ready: map[string]bool{simSweep: true}, timers: map[string]time.Time{}, jobs: map[string]*simJob{},
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second)}
}

// wakes enqueues the nodes that an event concerns.
func (o *simOperator) wakes(e simapi.Event) {
	for _, watch := range o.watches {
		for _, object := range e.Concerns(watch.Object, watch.Matters) {
			for _, request := range watch.Nodes(context.Background(), object) {
				o.ready[request.Name] = true
			}
		}
	}
}

// operate is one turn of the controller of NodeUpgrades in a manager. It continues the jobs in
// progress, and, if start is set, begins those that are due.
func (m *simManager) operate(start bool) {
	if m.w.ops == nil || m.sleeps(m.frozen) {
		return
	}
	o := &m.operator
	for name, at := range o.timers {
		if !m.w.now.Before(at) {
			delete(o.timers, name)
			o.ready[name] = true
		}
	}
	names := []string{simSweep}
	for _, h := range m.w.hosts {
		names = append(names, h.name)
	}
	for _, name := range names {
		j := o.jobs[name]
		if j == nil && start && o.ready[name] && (m.w.calm || !m.w.chance(4)) {
			j = m.beginJob(name)
		}
		if j != nil && !m.sleeps(j.until) && !m.goOn(j) {
			return
		}
	}
}

// sleeps reports whether something that sleeps until a time still does.
func (m *simManager) sleeps(until time.Time) bool { return m.w.now.Before(until) && !m.w.calm }

func (m *simManager) beginJob(node string) *simJob {
	o := &m.operator
	j := &simJob{node: node, sets: map[types.UID]*appsv1.DaemonSet{}, pods: map[types.UID]*corev1.Pod{}}
	delete(o.ready, node)
	o.jobs[node] = j
	j.next, _ = iter.Pull(func(yield func(*simCall) bool) {
		defer func() {
			if cause := recover(); cause != nil {
				m.w.panicked = fmt.Errorf("the controller of NodeUpgrades panics: %v\n%s", cause, debug.Stack())
			}
		}()
		j.yield = yield
		if node == simSweep {
			j.err = o.r.Sweep(context.Background())
			return
		}
		j.result, j.err = o.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: node}})
	})
	return j
}

// goOn continues a job until it ends or sleeps; false if the manager was killed or is suspended.
func (m *simManager) goOn(j *simJob) bool {
	w := m.w
	for {
		if j.call == nil {
			m.operator.job = j
			call, waits := j.next()
			m.operator.job = nil
			if !waits {
				m.finishJob(j)
				return true
			}
			j.call = call
			if call.writes() && !w.calm && w.chance(w.knobs.pause) {
				j.until = w.now.Add(w.seconds(0, 60))
				if w.chance(2) {
					m.frozen = j.until
				}
				w.say("%s sleeps until %s before %s", m.name, j.until.Sub(fixture.Epoch), call)
				return !m.sleeps(m.frozen)
			}
		}
		call := j.call
		j.call = nil
		w.serve(m, call)
		if !j.dead && !w.calm && call.writes() && w.chance(w.knobs.crash) {
			w.say("%s is killed", m.name)
			j.dead = true
		}
		if j.dead {
			m.die()
			return false
		}
	}
}

// finishJob does what the work queue does with the result of a job.
func (m *simManager) finishJob(j *simJob) {
	o := &m.operator
	delete(o.jobs, j.node)
	after := j.result.RequeueAfter
	switch {
	case j.node == simSweep:
		after = nodeupgrade.SweepInterval
	case j.err != nil:
		m.w.say("%s: operation of %s: error %v", m.name, j.node, j.err)
		after = o.limiter.When(j.node)
	default:
		o.limiter.Forget(j.node)
	}
	if at := m.w.now.Add(after); after > 0 && (o.timers[j.node].IsZero() || at.Before(o.timers[j.node])) {
		o.timers[j.node] = at
	}
}

// end fails all jobs, whose process is gone.
func (o *simOperator) end() {
	for _, name := range simSorted(o.jobs) {
		j := o.jobs[name]
		j.dead, o.job = true, j
		for call, waits := j.call, true; waits; call, waits = j.next() {
			if call != nil {
				call.answer(context.Canceled)
			}
		}
		o.job = nil
	}
	clear(o.jobs)
}

// die kills the process, with the current pass.
func (m *simManager) die() {
	if m.pass == nil {
		m.restart()
		return
	}
	m.pass.dead = true
	m.drive()
}

// simOperatorClient is a client of the controller of NodeUpgrades: it writes to the API server,
// and reads from the cache or past it.
type simOperatorClient struct {
	client.Client
	m    *simManager
	live bool
}

// from returns what a read sees; one past the cache may fail.
func (c *simOperatorClient) from(kind string) (*simapi.Cache, error) {
	if !c.live {
		c.m.cacheMoves(kind)
		return c.m.cache, nil
	}
	call, w := &simCall{verb: "get", key: simapi.Key{Kind: kind}}, c.m.w
	if c.m.operator.job.dead {
		return nil, context.Canceled
	}
	if w.outage || w.chance(8) { // a pass has many
		if err := c.m.w.failure(w.faultFor(call), call); err != nil {
			w.say("%s: %s past the cache for %s -> %v", c.m.name, kind, c.m.operator.job.node, err)
			return nil, err
		}
	}
	return w.api.Live(simLiveIndexers), nil
}

// Get reads an object.
func (c *simOperatorClient) Get(_ context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	cache, err := c.from(simapi.KindOf(object))
	if err == nil {
		err = cache.Get(key, object, opts...)
	}
	if j := c.m.operator.job; err == nil && c.live {
		switch o := object.(type) {
		case *corev1.Node:
			j.seen = o.DeepCopy()
		case *topsv1.NodeUpgrade:
			j.upgrade = o.DeepCopy()
		case *appsv1.DaemonSet:
			j.sets[o.UID] = o.DeepCopy()
		}
	}
	return err
}

// List reads a list.
func (c *simOperatorClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	cache, err := c.from(simapi.KindOf(list))
	if err == nil {
		err = cache.List(list, opts)
	}
	if pods, ok := list.(*corev1.PodList); ok && err == nil {
		for i := range pods.Items {
			c.m.operator.job.pods[pods.Items[i].UID] = &pods.Items[i]
		}
	}
	return err
}

// asks has a write served.
func (c *simOperatorClient) asks(verb string, key simapi.Key, effect func(j *simJob) error) (err error) {
	j := c.m.operator.job
	call := &simCall{verb: verb, key: key, by: &j.simActor, delayed: verb != simDryRun, effect: func() error { return effect(j) }, answer: func(e error) { err = e }}
	j.yield(call)
	return err
}

// idle reports whether no job is in progress.
func (o *simOperator) idle() bool { return len(o.jobs) == 0 }

// simMarks returns the operations that a node is cordoned or closed for.
func simMarks(node *corev1.Node) []string {
	var marks []string
	if id := node.Annotations[topsv1.AnnotationCordonedBy]; id != "" {
		marks = append(marks, id)
	}
	for _, t := range node.Spec.Taints {
		if t.Key == topsv1.TaintDriverUpgrade {
			marks = append(marks, t.Value)
		}
	}
	return marks
}

// simNewMarks returns the marks that a node has now and did not have before.
func simNewMarks(before, now *corev1.Node) []string {
	return slices.DeleteFunc(simMarks(now), func(id string) bool { return slices.Contains(simMarks(before), id) })
}

func simSorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
