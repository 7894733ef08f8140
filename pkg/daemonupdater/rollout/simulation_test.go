package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/simseeds"
)

// TestSimulation plays whole rollouts against a model of the cluster under a
// virtual clock: a DaemonSet controller that recreates pods, kubelets that make
// them Ready or not, nodes that go and come, an administrator who pushes good
// and bad revisions, and two managers that read stale state and crash between
// the ledger and the deletions. After every step it checks the invariants of
// design section 7 against the true state, and at the end that every node got
// to the target.
func TestSimulation(t *testing.T) {
	simseeds.Simulation{Name: "plan", Short: 100, Play: func(_ *testing.T, seed uint64) simseeds.Run {
		w := newWorld(seed)
		w.run()
		return simseeds.Run{Violation: w.violation, History: w.history, Steps: w.steps}
	}}.Test(t)
}

// version is what a pod template does to the node it runs on.
type version struct {
	hash  string
	bad   bool // never becomes available
	kills bool // takes the node offline
}

type simPod struct {
	uid         types.UID
	rv          int // changes with every write
	created     time.Time
	version     version
	terminating bool
	readyAt     time.Time
	goneAt      time.Time
	offlineSeen bool
}

type simNode struct {
	name       string
	ready      bool
	readySince time.Time
	backAt     time.Time // zero: stays off until the end
	pods       []*simPod // by member; nil when missing
	downByUs   bool      // an available pod of it was deleted by a manager, and it is not available again
}

type world struct {
	rng        *rand.Rand
	now        time.Time
	limit      int
	policy     Policy
	nodes      []*simNode
	current    []version // by member
	generation int
	ledger     Ledger
	ledgerRV   int
	managers   []*simManager
	uids       int
	rv         int
	steps      int
	calm       bool // no more faults
	history    []string
	violation  string
}

// simManager is one replica of the manager with the view its cache has.
type simManager struct {
	view    Input
	viewRV  int
	pending []Deletion // deletions it was about to do when it was interrupted
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), now: epoch, managers: []*simManager{{}, {}}}
	members := 1 + w.rng.IntN(3)
	w.limit = 1 + w.rng.IntN(4)
	w.policy = drawPolicy(w.rng)
	for range members {
		w.current = append(w.current, version{hash: "v0"})
	}
	for i := range 3 + w.rng.IntN(15) {
		n := &simNode{name: fmt.Sprintf("n%02d", i), ready: true, readySince: w.now}
		for m := range members {
			n.pods = append(n.pods, w.newPod(w.current[m], 0))
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// drawPolicy draws none, or some of what a policy can say.
func drawPolicy(rng *rand.Rand) Policy {
	var p Policy
	if rng.IntN(2) == 0 {
		p.PoolMaxUnavailable = ptr.To(intstr.FromInt32(int32(1 + rng.IntN(2))))
	}
	if rng.IntN(2) == 0 {
		p.Waves = []Wave{sizedWave("canary", "1"), sizedWave("half", "50%")}
		p.Waves[0].Soak = time.Duration(rng.IntN(300)) * time.Second
	}
	if rng.IntN(3) == 0 {
		p.Returned = time.Duration(rng.IntN(120)) * time.Second
	}
	return p
}

// pool is one of three by the node's place.
func (n *simNode) pool() string { return string(rune('x' + int(n.name[2])%3)) }

func (w *world) newPod(v version, delay time.Duration) *simPod {
	w.uids++
	return &simPod{uid: types.UID(fmt.Sprint("p", w.uids)), rv: w.writes(), created: w.now, version: v, readyAt: w.now.Add(delay)}
}

// writes counts the writes of the API server.
func (w *world) writes() int {
	w.rv++
	return w.rv
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%8s ", w.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

func (w *world) violate(format string, args ...any) {
	w.say("VIOLATION "+format, args...)
	w.violation = cmp.Or(w.violation, fmt.Sprintf(format, args...))
}

func (w *world) run() {
	w.push(false, false)
	for range 150 + w.rng.IntN(150) {
		w.step()
		if w.violation != "" {
			return
		}
	}
	w.settle()
}

// settle stops the faults, brings every node back and pushes a good version;
// then every node must get there (L1) within a bounded time.
func (w *world) settle() {
	w.calm = true
	for _, n := range w.nodes {
		if !n.ready {
			w.setReady(n, true)
		}
	}
	w.push(false, false)
	for range 3000 {
		w.step()
		if w.violation != "" || w.done() {
			return
		}
	}
	w.violate("L1: not every node is at the target: %s", w.describe())
}

func (w *world) done() bool {
	for _, n := range w.nodes {
		for m, p := range n.pods {
			if p == nil || !w.available(n, p) || p.version != w.current[m] {
				return false
			}
		}
	}
	return len(w.ledger.Slots) == 0
}

func (w *world) step() {
	w.steps++
	w.now = w.now.Add(time.Duration(1+w.rng.IntN(20)) * time.Second)
	w.kubernetes()
	if !w.calm {
		w.disturb()
	}
	w.manage(w.managers[w.rng.IntN(len(w.managers))])
	w.check()
}

// kubernetes lets the kubelets and the DaemonSet controller act.
func (w *world) kubernetes() {
	for _, n := range w.nodes {
		if !n.ready && !n.backAt.IsZero() && w.now.After(n.backAt) {
			w.setReady(n, true)
		}
		for m, p := range n.pods {
			switch {
			case p == nil:
				if w.rng.IntN(3) > 0 {
					n.pods[m] = w.newPod(w.current[m], time.Duration(w.rng.IntN(40))*time.Second)
				}
			case p.terminating && n.ready && w.now.After(p.goneAt):
				n.pods[m] = nil
			case p.version.kills && n.ready && !p.offlineSeen && w.now.After(p.readyAt) && !w.calm:
				p.offlineSeen = true
				w.setReady(n, false)
			}
		}
	}
}

func (w *world) setReady(n *simNode, ready bool) {
	n.ready, n.readySince, n.backAt = ready, w.now, time.Time{}
	if !ready && w.rng.IntN(4) > 0 {
		n.backAt = w.now.Add(time.Duration(10+w.rng.IntN(1500)) * time.Second)
	}
	w.say("node %s ready=%v", n.name, ready)
}

func (w *world) disturb() {
	switch w.rng.IntN(25) {
	case 0, 1:
		if n := w.nodes[w.rng.IntN(len(w.nodes))]; n.ready {
			w.setReady(n, false)
		}
	case 2:
		w.push(w.rng.IntN(4) == 0, w.rng.IntN(6) == 0)
	case 3: // somebody else deletes a pod
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		if p := n.pods[w.rng.IntN(len(n.pods))]; p != nil && !p.terminating {
			p.terminating, p.goneAt, p.rv = true, w.now.Add(10*time.Second), w.writes()
			w.say("somebody deletes a pod on %s", n.name)
		}
	}
}

func (w *world) push(bad, kills bool) {
	w.generation++
	for m := range w.current {
		if w.calm || m == 0 || w.rng.IntN(2) == 0 {
			w.current[m] = version{hash: fmt.Sprint("v", w.generation), bad: bad, kills: kills}
		}
	}
	w.say("push revision %d bad=%v kills=%v", w.generation, bad, kills)
}

func (w *world) available(n *simNode, p *simPod) bool {
	return n.ready && p != nil && !p.terminating && !p.version.bad && !w.now.Before(p.readyAt)
}

// observe is what an up-to-date cache shows.
func (w *world) observe() Input {
	in := Input{
		Now:       w.now,
		Settings:  daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(int32(w.limit))},
		Deadlines: DefaultDeadlines,
		Policy:    w.policy,
		Ledger: Ledger{Revision: w.ledger.Revision, Touched: w.ledger.Touched,
			Slots: slices.Clone(w.ledger.Slots), Failures: slices.Clone(w.ledger.Failures),
			Waves: slices.Clone(w.ledger.Waves), Usual: w.ledger.Usual},
	}
	for m, v := range w.current {
		in.Members = append(in.Members, Member{Key: fmt.Sprint("ds", m), Target: v.hash})
		in.Revision += v.hash + "/"
	}
	for _, n := range w.nodes {
		node := Node{Name: n.name, UID: types.UID(n.name), Pool: n.pool(), Ready: n.ready, ReadySince: n.readySince}
		for m, p := range n.pods {
			if p == nil {
				node.Pods = append(node.Pods, Pod{Member: m})
				continue
			}
			pod := Pod{Member: m, Name: string(p.uid), UID: p.uid, Version: fmt.Sprint(p.rv), Created: p.created, Revision: p.version.hash, Terminating: p.terminating, Available: w.available(n, p)}
			if p.version.bad && w.now.Sub(p.readyAt) > time.Minute {
				pod.CrashLooping = "c"
			}
			node.Pods = append(node.Pods, pod)
		}
		in.Nodes = append(in.Nodes, node)
	}
	return in
}

// manage lets one manager reconcile, with its cache perhaps behind, and perhaps
// interrupted between the ledger and the deletions.
func (w *world) manage(m *simManager) {
	for _, x := range m.pending { // a manager that was paused wakes up and goes on
		w.delete(x)
	}
	m.pending = nil
	if w.calm || w.rng.IntN(3) > 0 || m.viewRV == 0 {
		m.view, m.viewRV = w.observe(), w.ledgerRV+1
	}
	view := m.view
	view.Now = w.now
	d := Plan(view)
	if m.viewRV != w.ledgerRV+1 {
		return // the ledger moved on: the compare-and-swap fails and nothing is touched
	}
	w.checkStart(d)
	w.ledger = d.Ledger
	w.ledgerRV++
	m.viewRV = 0
	for _, name := range d.Started {
		w.say("manager starts %s (used %d of %d)", name, d.Used, d.Limit)
	}
	for _, p := range d.Fence {
		w.fence(p.UID)
	}
	for i, x := range d.Delete {
		if !w.calm && w.rng.IntN(20) == 0 {
			w.say("manager is interrupted before deleting %s", x.Pod)
			if w.rng.IntN(2) == 0 {
				m.pending = d.Delete[i:]
			}
			return
		}
		w.delete(x)
	}
}

// fence writes to a pod.
func (w *world) fence(uid types.UID) {
	for _, n := range w.nodes {
		for _, p := range n.pods {
			if p != nil && p.uid == uid {
				p.rv = w.writes()
				w.say("fence %s on %s", uid, n.name)
			}
		}
	}
}

// delete is the API call with its preconditions.
func (w *world) delete(x Deletion) {
	for _, n := range w.nodes {
		for _, p := range n.pods {
			if p == nil || p.uid != x.UID || fmt.Sprint(p.rv) != x.Version || p.terminating {
				continue
			}
			if w.nodeAvailable(n) {
				n.downByUs = true
			}
			p.terminating, p.goneAt, p.rv = true, w.now.Add(time.Duration(w.rng.IntN(30))*time.Second), w.writes()
			w.say("delete %s on %s (ready=%v)", p.uid, n.name, n.ready)
			if !w.holdsSlot(n.name) && !w.failed(n.name) {
				w.violate("S5: pod %s of node %s deleted without a slot", p.uid, n.name)
			}
		}
	}
}

func (w *world) nodeAvailable(n *simNode) bool {
	for _, p := range n.pods {
		if !w.available(n, p) {
			return false
		}
	}
	return true
}

func (w *world) holdsSlot(name string) bool {
	return slices.ContainsFunc(w.ledger.Slots, func(s Slot) bool { return s.Node == name })
}

func (w *world) failed(name string) bool {
	return slices.ContainsFunc(w.ledger.Failures, func(f Failure) bool { return f.Node == name })
}

func (w *world) checkStart(d Decision) {
	if n := d.Ledger.InFlight(); len(d.Started) > 0 && n > w.limit {
		w.violate("S1: %v started, %d slots in flight, limit %d", d.Started, n, w.limit)
	}
	failures := len(w.ledger.Failures)
	if w.ledger.Revision == d.Ledger.Revision && failures >= max(minFailures, (w.ledger.Touched+9)/10) &&
		len(d.Ledger.Failures) >= failures && len(d.Started) > 0 {
		w.violate("S2: %v started with %d failures of %d touched", d.Started, failures, w.ledger.Touched)
	}
}

// check holds the true state against the invariants.
func (w *world) check() {
	down, inPool := map[string]bool{}, map[string]int{}
	for _, n := range w.nodes {
		if w.nodeAvailable(n) {
			n.downByUs = false
		}
		if w.failed(n.name) {
			n.downByUs = false // counted as failed: the halt limits these
		}
		if n.downByUs {
			down[n.name] = true
			inPool[n.pool()]++
		}
	}
	for pool, n := range inPool {
		if most := w.policy.PoolMaxUnavailable; most != nil && n > most.IntValue() {
			w.violate("S1: %d nodes of pool %s down by us, limit %d", n, pool, most.IntValue())
		}
	}
	if len(down) > w.limit {
		w.violate("S1: %d nodes down by us, limit %d: %v", len(down), w.limit, slices.Sorted(maps.Keys(down)))
	}
}

func (w *world) describe() string {
	var b strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "%s ready=%v slot=%v", n.name, n.ready, w.holdsSlot(n.name))
		for _, p := range n.pods {
			if p == nil {
				b.WriteString(" missing")
				continue
			}
			fmt.Fprintf(&b, " %s(term=%v bad=%v)", p.version.hash, p.terminating, p.version.bad)
		}
		b.WriteString("; ")
	}
	return b.String()
}
