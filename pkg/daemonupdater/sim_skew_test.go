package daemonupdater

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// In a third of the seeds, clocks are wrong by minutes: those of hosts, by which kubelets and node agents
// write times, and that of the second manager; and they jump, as after a step of NTP or when a
// virtual machine is resumed, that of the first manager as well. In two thirds of these, a manager starts from time to time
// with a clock that is hours off, or no more (bootWrong). The world, the API server and the controllers of
// Kubernetes have the true time, and the checks are about it. Only what managers record and
// compare among themselves is checked by their own clocks: windows.

// simMaxSkew is how far a clock is at most from the true time.
const simMaxSkew = 3 * time.Minute

// newSimSkews returns the generator of a seed's wrong clocks, nil for a seed without them.
func newSimSkews(seed uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed, 5))
	if rng.IntN(3) != 0 {
		return nil
	}
	return rng
}

// drawSkew draws how far a clock is ahead.
func (w *simWorld) drawSkew() time.Duration {
	if w.skews == nil {
		return 0
	}
	return time.Duration(w.skews.Int64N(int64(2*simMaxSkew))) - simMaxSkew
}

// jump lets the clock of a host or of a manager jump.
func (w *simWorld) jump() {
	if w.skews == nil || w.skews.IntN(12) > 0 {
		return
	}
	if i := w.skews.IntN(len(w.hosts) + 2*len(w.managers)); i < len(w.hosts) {
		w.hosts[i].jump(w, w.drawSkew())
	} else {
		w.managers[i%len(w.managers)].jump(w.drawSkew())
	}
	w.bootWrong()
}

// simMaxOff is how far the clock of a manager is at most from the true time when it starts.
const simMaxOff = 4 * time.Hour

// bootWrong starts an idle manager, in every other jump, with a clock that may be hours from the true time. Not in a seed with
// backups: what they take back, a node agent tells from what such a clock wrote by times alone.
func (w *simWorld) bootWrong() {
	m := w.managers[w.skews.IntN(len(w.managers))]
	if w.skews.IntN(2) == 0 && m.pass == nil && m.operator.idle() && w.accidents == nil {
		m.boots(time.Duration(w.skews.Int64N(int64(2*simMaxOff))) - simMaxOff)
	}
}

// forgetOrder notes that the NodeUpgrade of a host is deleted, and its history with it, and lets its agent forget when
// the operations began of which it has results: it would ignore those that a manager begins by a clock hours behind.
func (w *simWorld) forgetOrder(h *simHost) {
	if h.machine != nil {
		h.machine.forgotten = true
	}
	if w.skews == nil || h.machine == nil {
		return
	}
	for key, r := range h.machine.disk {
		r.Result.Since = time.Time{}
		h.machine.disk[key] = r
	}
}

// jump sets the clock of a host, which is skew ahead then.
func (h *simHost) jump(w *simWorld, skew time.Duration) {
	w.say("the clock of %s jumps by %s", h.name, skew-h.skew)
	h.before, h.skew, h.jumped = h.skew, skew, w.now
}

// jump sets the clock of a manager, which is skew ahead then. How old what the process wrote is, it knows by the
// monotonic clock, which does not jump: else it would believe a ledger that a restored backup took back.
func (m *simManager) jump(skew time.Duration) {
	m.w.say("the clock of %s jumps by %s", m.name, skew-m.skew)
	if m.leaps == nil {
		m.leaps = map[time.Time]time.Duration{}
	}
	m.leaps[m.w.now] += skew - m.skew
	for g, last := range m.written() {
		last.at, last.promptly = last.at.Add(skew-m.skew), last.promptly.Add(skew-m.skew)
		m.r.written[g] = last
	}
	m.skew, m.leap, m.jumped = skew, skew-m.skew, m.w.now
}

// leapt is by how much a clock of a manager jumped ahead less than minReadySeconds ago. It takes pods for available that became Ready
// just before: what it saw it compares by the monotonic clock, which there is none of here.
func (w *simWorld) leapt() (by time.Duration) {
	for _, m := range w.managers {
		if m.leap > by && w.now.Sub(m.jumped) < simMinReady {
			by = m.leap
		}
	}
	return by
}

// written is what the process remembers to have written, nil before it starts.
func (m *simManager) written() map[observed.Group]writtenRollout {
	if m.r == nil {
		return nil
	}
	return m.r.written
}

// clock is the time by the clock of a host.
func (h *simHost) clock(w *simWorld) metav1.Time {
	at := fixture.WholeSecond(w.now.Add(h.skew))
	if w.skews != nil {
		if h.skews == nil {
			h.skews = map[int64]time.Duration{}
		}
		if before, known := h.skews[at.Unix()]; !known || before < h.skew { // a clock that was set back reads the same second again
			h.skews[at.Unix()] = h.skew
		}
	}
	return at
}

// skewAt is how far the clock of a host was ahead when it wrote a time.
func (h *simHost) skewAt(written metav1.Time) time.Duration {
	if skew, ok := h.skews[written.Unix()]; ok {
		return skew
	}
	return h.skew
}

// skewOf is how far the clock of its host was ahead when a pod became Ready.
func (w *simWorld) skewOf(pod *corev1.Pod) time.Duration {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return w.host(daemonset.NodeName(pod)).skewAt(c.LastTransitionTime)
		}
	}
	return 0
}

// simStarted is when a node was given its slot, and what the deadlines had lost then.
type simStarted struct{ at, lost time.Duration }

// startOfSlot returns since when, by the true time, a node has its slot, and by the clock of its manager if no ledger
// that was checked says so.
func (w *simWorld) startOfSlot(group observed.Group, slot *topsv1.NodeSlot) time.Time {
	if started, known := w.account(group).started[slot.Node]; known {
		return fixture.Epoch.Add(started.at)
	}
	return slot.Since.Time
}

// startOfOperation returns when an operation was started or granted by the true time, and by the clock of its manager if it is not known.
func (w *simWorld) startOfOperation(op *topsv1.OperationStatus) time.Time {
	if known := w.ops.known[op.ID]; known != nil && !known.started.IsZero() {
		return known.started
	}
	return op.StartTime.Time
}

// noteClock notes a stored decision. When the clock by which it was made is ahead of that of the
// decision before, but by no more than an absence, the deadlines lose that time.
func (a *simAccount) noteClock(pass *simPass, before *topsv1.DaemonRollout) {
	progress, lost := pass.deadlines()
	skew := pass.clock.Sub(pass.at)
	if ahead := skew - a.skew; before.Status.LastDecisionTime == nil || ahead <= min(2*time.Minute, max(15*time.Second, min(progress, lost)/5)) {
		a.lost += max(0, ahead)
	}
	a.skew = skew
}

// noteCompleted notes which waves, and parts of plans, became complete with a stored decision.
func (a *simAccount) noteCompleted(pass *simPass, before, after *topsv1.DaemonRollout) {
	same := before.Status.Revision == after.Status.Revision && before.Status.LimitedTo == after.Status.LimitedTo
	for _, wave := range after.Status.Waves {
		switch {
		case wave.CompletedTime == nil:
			delete(a.completed, wave.Name)
		case !same || simCompleted(before, wave.Name) == nil:
			a.completed[wave.Name] = simCompletion{simStarted{pass.at.Sub(fixture.Epoch), a.lost}, pass.soakOf(wave.Name)}
		}
	}
}

// simCompletion is when a wave was complete, and for how long it was to soak then, in seconds.
type simCompletion struct {
	simStarted
	soak int32
}

// soakOf returns for how long the wave of a part, or a wave, soaks by the policy that a pass saw, 0 if it does not.
func (p *simPass) soakOf(part string) (seconds int32) {
	name, _, _ := strings.Cut(part, "/")
	if p.policy != nil {
		for _, wave := range p.policy.Spec.Waves {
			if wave.Name == name {
				seconds = wave.SoakSeconds
			}
		}
	}
	return seconds
}

// soaked returns for how long a wave has soaked by the true time, and the time that changes of the clock add, and reports
// whether that is long enough. It is if nothing is known of the wave, or if it is to soak for longer than when it became
// complete: the clock may have jumped since the soak was over.
func (a *simAccount) soaked(pass *simPass, wave string, seconds int32) (since time.Duration, enough bool) {
	done, known := a.completed[wave]
	since = pass.at.Sub(fixture.Epoch) - done.at + a.lost - done.lost
	return since, !known || done.soak < seconds || since+2*time.Second >= time.Duration(seconds)*time.Second
}

// deadlines returns those of the policy that a pass saw.
func (p *simPass) deadlines() (progress, lost time.Duration) {
	progress, lost = rollout.DefaultDeadlines.Progress, rollout.DefaultDeadlines.Lost
	if p.policy != nil && p.policy.Spec.ProgressDeadlineSeconds != nil {
		progress = time.Duration(*p.policy.Spec.ProgressDeadlineSeconds) * time.Second
	}
	if p.policy != nil && p.policy.Spec.LostDeadlineSeconds != nil {
		lost = time.Duration(*p.policy.Spec.LostDeadlineSeconds) * time.Second
	}
	return progress, lost
}

// checkFailures checks that no node fails for a deadline before the time that it is given has passed, nor one
// that is available.
func (w *simWorld) checkFailures(pass *simPass, before, after *topsv1.DaemonRollout) {
	progress, lost := pass.deadlines()
	least := map[string]time.Duration{"ProgressDeadlineExceeded": progress, "NodeLost": lost}
	a := w.account(pass.group)
	for _, f := range after.Status.Failed {
		i := slices.IndexFunc(before.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == f.Node && s.UID == f.UID })
		if i < 0 || least[f.Reason] == 0 || before.Status.InFlight[i].Operation != "" {
			continue
		}
		started, known := a.started[f.Node]
		if held := pass.at.Sub(fixture.Epoch) - started.at + a.lost - started.lost; known && held+time.Second < least[f.Reason] {
			w.violate("deadline: %s fails (%s) after %s, it has %s", f.Node, f.Reason, held, least[f.Reason])
		}
		if w.ops == nil && f.Reason == "ProgressDeadlineExceeded" && pass.availableFor(f.Node, daemonset.MaxSkew) {
			w.violate("deadline: %s fails (%s), and the pass saw it available", f.Node, f.Reason)
		}
	}
}

// simSighting is when a manager first saw a condition that has lasted since a time.
type simSighting struct {
	since metav1.Time
	at    time.Time
}

// seemsReadyFor returns at least how long a node seems to be Ready to the manager of a pass, by clocks that differ.
func (p *simPass) seemsReadyFor(node string) time.Duration {
	_, since := daemonset.NodeReady(p.seen.nodes[node])
	if seen := p.m.readyAt[node]; since == seen.since {
		return min(p.readyFor(node)-2*daemonset.MaxSkew, p.at.Sub(seen.at))
	}
	return 0
}

// readyFor returns for how long a node that a pass saw Ready had truly been so.
func (p *simPass) readyFor(node string) time.Duration {
	_, since := daemonset.NodeReady(p.seen.nodes[node])
	return p.at.Add(p.w.host(node).skewAt(since)).Sub(since.Time)
}
