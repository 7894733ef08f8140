package daemonupdater

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/restart"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simAgent is a process of the node agent: the production Worker, on a model of the host.
type simAgent struct {
	w      *simWorld
	h      *simHost
	worker *hosttasks.Worker
	ctx    context.Context
	kill   context.CancelFunc
	born   time.Time
	due    time.Time // its next pass

	mu sync.Mutex
	// tasks are those that it executes. The world takes their steps.
	tasks []*simHostTask
}

// simHostTask is the execution of one task.
type simHostTask struct {
	request task.Request
	ctx     context.Context
	reply   chan error
}

func (t *simHostTask) key() string { return task.KeyOf(t.request.ID, t.request.Task) }

const (
	// simSettled is how long an agent waits for a restart that an earlier one asked for.
	simSettled = 30 * time.Second
	// simAgentTurn is how often an agent looks after a failure.
	simAgentTurn = 5 * time.Second
)

// runAgent runs the node agent of a host. It may die after each action.
func (w *simWorld) runAgent(h *simHost) {
	m := h.machine
	w.finishRestarts(h)
	if !h.up {
		m.agent.dies()
		m.agent = nil
		return
	}
	if w.now.Before(m.agentDownUntil) && !w.calm || !w.calm && w.chance(3) {
		return
	}
	if m.agent == nil {
		m.agent = w.newAgent(h)
	}
	a := m.agent
	if u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: h.name}); w.introduces(h, u) {
		asks := u != nil && len(u.RequestedTasks()) > 0
		if asks || !w.now.Before(a.due) || !w.calm && w.chance(5) {
			next, err := a.worker.Pass(a.ctx)
			synctest.Wait() // what it began is there
			if err != nil {
				next = simAgentTurn
			}
			a.due = w.now.Add(next)
		}
	}
	w.takeSteps(a)
}

// introduces acts as the rest of the agent, which creates its NodeUpgrade and describes itself;
// false while it is not there.
func (w *simWorld) introduces(h *simHost, u *topsv1.NodeUpgrade) bool {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	switch {
	case node == nil || w.isCut(h):
		return u != nil
	case u == nil:
		w.api.Put(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: h.name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: h.name, UID: node.UID}}},
			Status: topsv1.NodeUpgradeStatus{Agent: h.machine.describesAgent()}})
		return false
	}
	return true
}

// describesAgent returns what the agent of a machine says of itself: of an older version, nothing.
func (m *simMachine) describesAgent() *topsv1.AgentStatus {
	a := &topsv1.AgentStatus{RestartsRuntime: m.says}
	if m.says != nil {
		a.Capabilities = upgradeplan.Capabilities()
	}
	return a
}

// isCut reports whether a host cannot reach the API server.
func (w *simWorld) isCut(h *simHost) bool { return !w.calm && w.now.Before(h.machine.cutUntil) }

func (w *simWorld) newAgent(h *simHost) *simAgent {
	a := &simAgent{w: w, h: h, born: w.now}
	a.ctx, a.kill = context.WithCancel(context.Background())
	a.worker = hosttasks.New(hosttasks.Options{NodeName: h.name, RestartAllowed: !h.machine.byHand, Executor: a, Cluster: simHostCluster{a},
		Clock: simHostClock{h: h, w: w}, Log: logr.Discard()})
	return a
}

// dies ends the process: what it executes ends without a result.
func (a *simAgent) dies() {
	if a == nil {
		return
	}
	a.kill()
	synctest.Wait() // what it began is there
	for _, t := range a.tasks {
		t.reply <- context.Cause(t.ctx)
	}
	synctest.Wait()
}

// takeSteps takes a step of each task that an agent executes.
func (w *simWorld) takeSteps(a *simAgent) {
	tasks := slices.SortedFunc(slices.Values(a.tasks), func(s, t *simHostTask) int { return cmp.Compare(s.key(), t.key()) })
	a.tasks = nil
	for i, t := range tasks {
		ended, err := w.takeStep(a, t)
		if !ended {
			a.tasks = append(a.tasks, t)
		} else {
			a.due = w.now
			t.reply <- err
			synctest.Wait()
		}
		if w.agentDies(a.h) {
			w.say("the agent of %s dies", a.h.name)
			a.tasks = append(a.tasks, tasks[i+1:]...)
			a.dies()
			a.h.machine.agent = nil
			return
		}
	}
}

// takeStep takes one step of a task, and records it; ended reports whether that was the last for
// now, and err why there is no result.
func (w *simWorld) takeStep(a *simAgent, t *simHostTask) (ended bool, err error) {
	m, request := a.h.machine, t.request
	r, known := m.disk[t.key()]
	switch {
	case known && r.Subject != request.Subject():
		return true, fmt.Errorf("%s: %w", t.key(), task.ErrConflict)
	case m.lost[t.key()] && request.RestartRuntime != nil:
		return true, fmt.Errorf("%s: %w", t.key(), task.ErrLost)
	case !known:
		r = task.Record{Subject: request.Subject(), Result: task.Result{ID: request.ID, Task: request.Task, Since: request.Since, Started: a.h.clock(w).UTC()}}
	}
	final := r.Final()
	r.Result.Attempt = request.Attempt
	switch {
	case context.Cause(t.ctx) != nil:
		a.ends(t, r, topsv1.HostTaskFailed, task.ReasonWithdrawn, "")
	case final:
		m.disk[t.key()] = r
	case request.RestartRuntime != nil:
		return w.restartStep(a, t, r), nil
	case request.Prepull != nil && !w.calm && w.chance(3):
		w.countAhead(request, notPulledAhead)
		a.ends(t, r, topsv1.HostTaskFailed, task.ReasonPullFailed, "the registry is away")
	case request.Prepull != nil:
		w.countAhead(request, pulledAhead)
		a.ends(t, r, topsv1.HostTaskDone, task.ReasonPulled, "")
	default:
		a.ends(t, r, topsv1.HostTaskDone, task.ReasonRead, "")
	}
	return true, nil
}

// countAhead counts a pull that was asked for without an operation.
func (w *simWorld) countAhead(request task.Request, what string) {
	if strings.HasPrefix(request.ID, "prepull-") {
		w.ahead[what]++
	}
}

// ends records a result.
func (a *simAgent) ends(t *simHostTask, r task.Record, state topsv1.HostTaskState, reason task.Reason, message string) {
	r.Result.State, r.Result.Reason, r.Result.Message, r.Result.Finished = state, reason, message, time.Time{}
	if state.Final() {
		r.Result.Finished = a.h.clock(a.w).UTC()
	}
	a.h.machine.disk[t.key()] = r
}

// restartStep takes one step of a restart, as package restart decides.
func (w *simWorld) restartStep(a *simAgent, t *simHostTask, r task.Record) (ended bool) {
	m := a.h.machine
	f := restart.Facts{Want: *t.request.RestartRuntime, CanRestart: true, Runtime: m.runtimeFacts(), Configured: m.configured, Named: true, Fresh: w.now.Add(a.h.skew).Sub(r.Result.Started).Abs() < restart.ConfigurePatience, Begun: r.Begun,
		Command: "systemctl restart docker", Busy: len(m.asked) > 0, GraceOver: w.now.Sub(a.born) >= simSettled}
	if r.Begun != nil {
		r.Begun = r.Begun.Within(w.now.Add(a.h.skew), t.request.Timeout())
		f.Expired = !w.now.Add(a.h.skew).Before(r.Begun.Deadline)
	}
	d := restart.Decide(f)
	switch d.Step {
	case restart.Report, restart.Finish:
		a.ends(t, r, d.State, d.Reason, d.Message)
		return true
	case restart.Begin:
		r.Begun = &task.Begun{Engine: task.Containerd, Before: f.Runtime.Instance, Deadline: w.now.Add(a.h.skew + t.request.Timeout())}
		a.ends(t, r, d.State, d.Reason, d.Message)
	case restart.Attempt:
		begun := *r.Begun
		begun.Attempts++
		r.Begun, r.Result.Attempts = &begun, begun.Attempts
		m.disk[t.key()] = r
		if !w.calm && w.chance(6) {
			return false // it may die before it asks
		}
		asked := simRestart{t.request.ID, w.now}
		if !w.calm && w.chance(3) {
			asked.at = w.now.Add(w.seconds(0, 120))
		}
		m.asked = append(m.asked, asked)
		w.finishRestarts(a.h)
	}
	return false
}

// finishRestarts has the service manager restart the runtime, whether or not an agent is there.
// Restarts that a host was asked for before it went down are forgotten.
func (w *simWorld) finishRestarts(h *simHost) {
	m := h.machine
	for len(m.asked) > 0 && (!h.up || w.calm || !w.now.Before(m.asked[0].at)) {
		op := m.asked[0].op
		if m.asked = m.asked[1:]; h.up {
			w.restartRuntime(h, op)
		}
	}
}

// runtimeFacts describes the runtime.
func (m *simMachine) runtimeFacts() task.RuntimeFacts {
	return task.RuntimeFacts{Engine: task.Containerd, Default: m.runtime, RestartStopsContainers: m.stops, Instance: fmt.Sprint("containerd-", m.runs), Started: m.began}
}

// Execute executes a task. It returns when the world has taken its last step.
func (a *simAgent) Execute(ctx context.Context, request task.Request) (task.Result, error) {
	if err := request.Validate(); err != nil {
		return task.Result{}, err
	}
	t := &simHostTask{request: request, ctx: ctx, reply: make(chan error)}
	a.mu.Lock()
	a.tasks = append(a.tasks, t)
	a.mu.Unlock()
	return task.Result{}, <-t.reply
}

// Facts returns the state of the host.
func (a *simAgent) Facts(context.Context, task.Engine) (task.Facts, error) {
	m := a.h.machine
	cards := simCardsThere
	if m.driver == "" {
		cards = 0
	}
	return task.Facts{Runtime: ptr.To(m.runtimeFacts()), Host: &task.HostFacts{DriverVersion: m.driver, Devices: &cards, Holders: &task.DeviceHolders{Visible: true}, BootID: fmt.Sprint("boot-", a.h.since.Unix())}}, nil
}

// Results returns what is on the disk.
func (a *simAgent) Results() (all []task.Result) {
	for _, key := range slices.Sorted(maps.Keys(a.h.machine.disk)) {
		all = append(all, a.h.machine.disk[key].Result)
	}
	return all
}

// Unended returns the requests that observe the restarts on the disk that have not ended.
func (a *simAgent) Unended() (requests []task.Request) {
	for _, key := range slices.Sorted(maps.Keys(a.h.machine.disk)) {
		if request, is := a.h.machine.disk[key].Unended(); is {
			requests = append(requests, request)
		}
	}
	return requests
}

// simHostClock is the clock of a host.
type simHostClock struct {
	clock.Clock
	w *simWorld
	h *simHost
}

// Now returns the time by it.
func (c simHostClock) Now() time.Time { return c.w.now.Add(c.h.skew) }

// simHostCluster is the connection of an agent to the API server.
type simHostCluster struct{ a *simAgent }

func (c simHostCluster) reach(what string) error {
	w := c.a.w
	if w.isCut(c.a.h) || w.outage || !w.calm && w.chance(30) {
		return fmt.Errorf("%s: %w", what, errReset)
	}
	return nil
}

// Node reads a node.
func (c simHostCluster) Node(_ context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, c.get(name, node)
}

// NodeUpgrade reads a NodeUpgrade.
func (c simHostCluster) NodeUpgrade(_ context.Context, name string) (*topsv1.NodeUpgrade, error) {
	u := &topsv1.NodeUpgrade{}
	return u, c.get(name, u)
}

func (c simHostCluster) get(name string, object client.Object) error {
	if err := c.reach("get " + name); err != nil {
		return err
	}
	return c.a.w.api.Live(nil).Get(client.ObjectKey{Name: name}, object)
}

// ApplyStatus applies status.host, without what the CRD lacks: the API server would refuse that, and pkg/nodeapi leaves it out.
func (c simHostCluster) ApplyStatus(_ context.Context, _ string, u *topsv1.NodeUpgrade) error {
	if err := c.reach("apply " + u.Name); err != nil {
		return err
	}
	key := simapi.KeyOf(u)
	switch stored := simapi.Get[*topsv1.NodeUpgrade](c.a.w.api, key); {
	case stored == nil:
		return apierrors.NewNotFound(simapi.Resource(key), u.Name)
	case stored.UID != u.UID:
		return simapi.Conflict(key, "another UID")
	}
	simapi.Edit(c.a.w.api, key, func(stored *topsv1.NodeUpgrade) { stored.Status.Host = u.Status.Host.DeepCopy() })
	return nil
}

// Secret finds none.
func (c simHostCluster) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(simapi.Resource(simapi.Key{Kind: "Secret"}), name)
}
