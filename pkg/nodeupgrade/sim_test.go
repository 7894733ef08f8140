package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/transform"
	"github.com/topsops/gcu-operator/test/simapi"
	"github.com/topsops/gcu-operator/test/simseeds"
)

// TestSimulationOfStories plays each story (sim_stories_test.go) with the production Reconciler
// on caches that lag, in processes that die after any write, are suspended in the middle of a
// reconcile while another one leads, and are woken only by the events of their cache and by their
// timers. It must end as undisturbed, and no write may violate an invariant (sim_checks_test.go).
func TestSimulationOfStories(t *testing.T) {
	simseeds.Simulation{Name: "stories", Short: 60, Part: 2, Reaches: []string{"killed", "suspended", "late deletion"}, Play: func(t *testing.T, seed uint64) simseeds.Run {
		story := stories[seed%uint64(len(stories))]
		want := tell(t, story, nil)
		got := tell(t, story, rand.New(rand.NewPCG(seed, 4)))
		if want.run.Violation != "" {
			return want.run
		}
		if got.run.Violation == "" && got.end != want.end {
			got.run.Violation = fmt.Sprintf("%s: it ends %+v, undisturbed %+v", story.name, got.end, want.end)
		}
		return got.run
	}}.Test(t)
}

// simulation is a stage on a simulated API server.
type simulation struct {
	*stage
	api *simapi.API
	rng *rand.Rand // nil: undisturbed
	run simseeds.Run
	end ending
	*process
	checks

	inside bool // a reconcile, which other processes may interrupt
	nested bool // in such an interruption
	late   bool // the rest of a reconcile after one
	calm   bool // no more disturbances
	// refused is the component whose pods may not be deleted, sealed the one whose pods may not be changed; "" for none.
	refused  string
	sealed   string
	fixed    bool // the Node may not be changed
	refusals int
	// then is called once the operation is at the task awaited.
	awaited string
	then    func()
}

// process is one manager: its cache, and what its work queue holds.
type process struct {
	cache *simapi.Cache
	line  *connection
	r     *Reconciler
	ready bool
	due   time.Time
}

// ending is how a story ends.
type ending struct{ How, Marks, Revisions, Created string }

var simKinds = []string{"DaemonSet", "ControllerRevision", "Pod", "Node", "NodeUpgrade"}

var simIndexers = map[string]client.IndexerFunc{nodeOfPod: func(object client.Object) []string {
	if _, pod := object.(*corev1.Pod); !pod {
		return nil
	}
	return indexByNode(object)
}}

// tell plays a story to its end, undisturbed without a source of disturbances.
func tell(t *testing.T, story story, rng *rand.Rand) *simulation {
	w := &simulation{rng: rng, run: simseeds.Run{Reached: map[string]int{}}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.stage = bareStage(witness{t, w}, story.components...)
		w.begin()
		story.tell(w)
		w.settle()
		w.end = ending{How: w.untilOver(), Marks: w.marks()}
		if w.checkEnd(); !story.loose {
			w.end.Revisions, w.end.Created = w.revisions(), fmt.Sprint(w.created)
		}
	}()
	<-over
	return w
}

// begin sets the stage.
func (w *simulation) begin() {
	w.now, w.patience = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), 3000
	w.api = simapi.New(func() time.Time { return w.now })
	live := &simapi.Client{API: w.api, From: func() *simapi.Cache { return w.api.Live(simIndexers) }}
	w.plane = &plane{admin: live, connect: func() (cached, past client.WithWatch, evictor drain.Evictor, err error) {
		cache := simapi.NewCache(w.api, simIndexers, transform.Trim())
		w.process = &process{cache: cache, ready: true}
		return watched{&simapi.Client{API: w.api, From: func() *simapi.Cache { return cache }}, w}, live, simEvictor{w}, nil
	}}
	w.checks = checks{history: map[string]bool{}, deleted: map[string]int{}}
	w.set()
	w.boot()
	w.api.Changed = w.checkWrite
	w.simulated = w.step
}

// boot starts a new process, whose cache is filled by a list that may itself be old.
func (w *simulation) boot() {
	w.start()
	w.process.line, w.process.r = w.stage.line, w.stage.r
	w.process.line.between = w.between
	if w.chance(2) {
		w.process.line.killAfter = len(w.process.line.writes) + 1 + w.rng.IntN(12)
	}
	w.sync()
	w.ready = true
	w.must(ignoreDeath(w.process.r.Sweep(w.ctx)))
}

// chance is true once in n times on average, never undisturbed.
func (w *simulation) chance(n int) bool { return w.rng != nil && !w.calm && w.rng.IntN(n) == 0 }

func ignoreDeath(err error) error {
	if errors.Is(err, errKilled) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// step lets some time pass, the world act, and the leader work.
func (w *simulation) step() {
	w.run.Steps++
	w.now = w.now.Add(turnTime)
	if !w.chance(3) {
		w.world()
	}
	w.runThen()
	w.sync()
	if !w.now.Before(w.due) && !w.due.IsZero() {
		w.ready, w.due = true, time.Time{}
	}
	if w.chance(20) || w.run.Steps%int(SweepInterval/turnTime) == 0 {
		w.must(ignoreDeath(w.process.r.Sweep(w.ctx)))
	}
	if w.ready {
		w.ready = false
		w.pass()
	}
	if w.process.line.dead {
		w.say("the process is killed")
		w.run.Reached["killed"]++
		w.boot()
	}
}

// pass reconciles once.
func (w *simulation) pass() {
	p := w.process
	w.inside = true
	result, err := p.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: w.node}})
	w.inside, w.late = false, w.late && w.nested
	switch {
	case errors.Is(err, errKilled):
	case err != nil:
		w.t.Fatalf("reconciling: %v", err)
	case result.RequeueAfter > 0:
		p.due = w.now.Add(result.RequeueAfter)
	}
}

// between runs before every request of a process: its cache may move, and the process may be
// suspended.
func (w *simulation) between() {
	if !w.inside {
		return
	}
	if w.chance(3) {
		w.sync()
	}
	w.maySuspend(40)
}

// maySuspend suspends the process once in n times, until another one that leads has worked for a
// while.
func (w *simulation) maySuspend(n int) {
	if w.nested || !w.chance(n) {
		return
	}
	suspended, recorded := w.process, *w.stage
	w.nested, w.inside = true, false
	w.say("the process is suspended, another one leads")
	w.run.Reached["suspended"]++
	w.boot()
	for range 1 + w.rng.IntN(25) {
		w.step()
	}
	w.say("the first process goes on")
	w.nested, w.inside, w.late = false, true, true
	w.process, w.stage.line, w.stage.r = suspended, recorded.line, recorded.r
	w.ready = true
}

// sync lets the cache catch up to some degree: each kind may show a state from some writes ago.
func (w *simulation) sync() {
	var events []func()
	for _, kind := range simKinds {
		n := w.cache.Behind(kind)
		if n > 0 && w.rng != nil && !w.calm {
			n = max(n-6, w.rng.IntN(n+1))
		}
		for _, e := range w.cache.Advance(kind, n) {
			events = append(events, func() { w.wake(e) })
		}
	}
	for _, handle := range events {
		handle()
	}
}

// wake enqueues the node if an event concerns it.
func (w *simulation) wake(e simapi.Event) {
	if w.process.r == nil {
		return
	}
	for _, watch := range w.process.r.Watches() {
		for _, object := range e.Concerns(watch.Object, watch.Matters) {
			w.ready = w.ready || len(watch.Nodes(w.ctx, object)) > 0
		}
	}
}

// at does something as soon as the operation is at a task.
func (w *simulation) at(task string, then func()) {
	w.awaited, w.then = w.node+"_"+task, then
	for range w.patience {
		if w.then == nil {
			return
		}
		w.step()
	}
	w.t.Fatalf("not reached: %s; it is %+v", task, w.upgrade().Status.Operation)
}

func (w *simulation) runThen() {
	if w.awaited == "" && w.then != nil {
		then := w.then
		w.then = nil
		then()
	}
}

// settle ends all disturbances, and lets the controller take away what is left.
func (w *simulation) settle() {
	w.untilOver()
	w.calm = true
	for range 10 {
		w.step()
	}
	w.must(w.process.r.Sweep(w.ctx))
}

func (w *simulation) say(format string, args ...any) {
	w.run.History = append(w.run.History, w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// witness ends a story at its first violation.
type witness struct {
	testing.TB
	w *simulation
}

func (f witness) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f witness) Fatalf(format string, args ...any) {
	f.w.run.Violation = fmt.Sprintf(format, args...)
	f.w.say("VIOLATION %s", f.w.run.Violation)
	runtime.Goexit()
}

// simEvictor is the eviction subresource, whose evictions are checked.
type simEvictor struct{ w *simulation }

func (e simEvictor) Evict(_ context.Context, request *policyv1.Eviction) error {
	pod := simapi.Get[*corev1.Pod](e.w.api, simapi.Named("Pod", request.Namespace, request.Name))
	err := e.w.api.Evict(request)
	if err == nil && len(request.DeleteOptions.DryRun) == 0 {
		e.w.checkEviction(pod)
	}
	return err
}

// watched is the client of the controller, whose deletions are checked.
type watched struct {
	*simapi.Client
	w *simulation
}

// Delete deletes a pod, maybe late.
func (c watched) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	c.w.maySuspend(4)
	pod := simapi.Get[*corev1.Pod](c.API, simapi.KeyOf(object))
	if c.w.refused != "" && c.w.componentOf(pod) == c.w.refused {
		c.w.refusals++
		return apierrors.NewForbidden(simapi.Resource(simapi.KeyOf(object)), object.GetName(), errors.New("denied by a webhook"))
	}
	err := c.Client.Delete(ctx, object, opts...)
	if c.w.late && !c.w.nested {
		c.w.run.Reached["late deletion"]++
	}
	if err == nil {
		c.w.checkDeletion(pod, (&client.DeleteOptions{}).ApplyOptions(opts))
	}
	return err
}

// componentOf returns the component of a pod, "" for a pod of no component of the stage.
func (w *simulation) componentOf(pod *corev1.Pod) string {
	if app := pod.Labels["app"]; slices.Contains(w.components, app) {
		return app
	}
	return ""
}

// ownerOf returns the DaemonSet that owns a pod, by its UID.
func (w *simulation) ownerOf(pod *corev1.Pod) *appsv1.DaemonSet {
	for _, ds := range simapi.All[*appsv1.DaemonSet](w.api, "DaemonSet") {
		if metav1.IsControlledBy(pod, ds) {
			return ds
		}
	}
	return nil
}
