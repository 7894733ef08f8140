package rollout

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/topsops/gcu-operator/pkg/message"
)

// failureOf returns the failure of a node whose slot was started at since, or nil and the time
// left until its deadline. A node that is available and offers its cards, or for which a deletion
// is denied, has neither.
func failureOf(in *Input, slot *Slot, since time.Time, n *Node) (failed *Failure, left time.Duration) {
	if n.available && !awaitsCards(n.group, slot, n.Pods) || n.isDenied(slot) {
		return nil, 0
	}
	failure := Failure{Node: n.Name, UID: n.UID, Machine: n.Machine, Since: in.Now, Requested: n.Requested, Targets: toBlame(slot, n)}
	if pod := n.crashLooping(slot); n.Ready && pod != nil && !n.isBusy() {
		failure.Reason, failure.Message = ReasonCrashLooping, crashMessage(pod)
		if blamed := blamedFor(n.group, n, pod); len(blamed) > 0 {
			failure.Targets = blamed
		}
		return &failure, 0
	}
	if left := timeLeft(in, slot, since, n); left > 0 {
		return nil, left
	}
	if !n.Ready {
		failure.Reason = ReasonNodeLost
		failure.Message = fmt.Sprintf("went offline after it was started and did not come back within %s", in.Deadlines.Lost)
		return &failure, 0
	}
	_, waitsFor := n.progress()
	if plugins := offeringNone(n.group, slot, n.Pods); n.available && slot.Operation == "" { // without cards
		failure.Targets = plugins
	}
	failure.Reason = ReasonProgressDeadlineExceeded
	failure.Message = fmt.Sprintf("not available within %s: %s", in.Deadlines.Progress, waitsFor)
	return &failure, 0
}

// isOvertaken reports whether a node that is not available waits only for pods that are to be replaced since, and that are not of the
// members that are to blame: one that was replaced along with a bad driver, for example. Those of the members that are to blame work.
func (f *Failure) isOvertaken(n *Node) bool {
	others := false
	for i := range n.Pods {
		pod := &n.Pods[i]
		broken, next := pod.isAbsent() || !pod.Available, isNextAlong(n.group, n, pod)
		blamed := f.blames(n.group.keyOf(pod))
		switch {
		case blamed && (broken || pod.OffersNone) && !next:
			return false
		case !broken:
		case !next && (!n.group.isOutdated(pod) || !n.group.toReplace(n, pod)):
			return false
		default:
			others = true
		}
	}
	return others && n.Ready && f.Reason == ReasonProgressDeadlineExceeded
}

// stillHolds reports whether a node has not recovered from its failure. What else is left to do on the node does not matter: it did not
// fail. From the failure of a device plugin the node has recovered only when it offers cards; from a crash loop, in which a pod is available
// for moments, when the pod has been Ready for much longer than a container ran before it crashed, or there is another pod. A node on which
// something is left to do starts again at once, so its pods must have worked for a while.
func (d *draft) stillHolds(failure *Failure, n *Node) bool {
	if n.isOtherMachine(failure) {
		return false
	}
	if failure.isOvertaken(n) {
		return false
	}
	crashed := failure.Reason == ReasonCrashLooping
	return !failure.mayBeOver(n) || slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		if !failure.concerns(n, &pod) {
			return false
		}
		works := pod.ReadyAgain.Add(min(d.in.Deadlines.Progress, max(d.in.Deadlines.Unavailable, 2*pod.Ran)))
		if !n.hasRecovered() { // it would start at once
			works = later(works, later(pod.WorksSince, n.ReadySince).Add(d.in.Deadlines.Unavailable))
		}
		left := works.Sub(d.in.Now)
		moment := left > 0 && (crashed || !n.hasRecovered())
		if moment {
			d.recheckIn(left)
		}
		unverified := failure.Reason == ReasonNodeLost && n.group.needsVerification(n, &pod) // by an operation that was lost
		return pod.OffersNone || moment || pod.isAbsent() || !pod.Available || unverified || n.group.isOutdated(&pod)
	})
}

// mayBeOver reports whether a node has recovered from its failure if the pods that may have caused it work.
func (f *Failure) mayBeOver(n *Node) bool {
	crashed := f.Reason == ReasonCrashLooping
	return n.hasRecovered() || f.isOfPods() && (n.available || crashed && n.Ready)
}

// isOfPods reports whether a node failed because pods of known revisions did not work. What an operation failed at, only another one
// can verify.
func (f *Failure) isOfPods() bool {
	return len(f.Targets) > 0 && slices.Contains([]Reason{ReasonCrashLooping, ReasonProgressDeadlineExceeded, ReasonNodeLost}, f.Reason)
}

// timeLeft returns how long a node that was started at since may still be unavailable under its
// slot. Each deletion and each change of readiness restarts the deadline, but the total time is
// bounded, so that a node that flaps does not keep its slot forever.
func timeLeft(in *Input, slot *Slot, since time.Time, n *Node) time.Duration {
	within := in.Deadlines.Progress
	if !n.Ready {
		within = in.Deadlines.Lost
	}
	left, total := later(slot.Progress, n.ReadySince).Add(within).Sub(in.Now), since.Add(slot.Idle).Add(in.Deadlines.maxTotal(len(n.Pods))).Sub(in.Now)
	if n.Ready && !n.unready && !awaitsCards(n.group, slot, n.Pods) {
		return total // every pod is Ready, and only waits for minReadySeconds
	}
	return min(left, total)
}

// updateFailures keeps the failures of earlier decisions that still hold: those of revisions that
// are still the targets, on machines that have not recovered. They still hold if the Node object is
// deleted and created again, and while the failed operation goes on because a person resumed it.
// When a person resumes the rollout, all are cleared.
func updateFailures(d *draft) {
	nodes := &d.fleet.nodes
	nodes.recordFailures(d.ledger.Failures)
	for _, failure := range d.in.Ledger.Failures {
		if d.in.Resume != d.in.Ledger.Resumed || !d.stillBlames(&failure) {
			continue
		}
		if n := nodes.byName[failure.Node]; n != nil {
			if !d.stillHolds(&failure, n) || n.failure != nil {
				continue
			}
			failure.UID = n.UID
		}
		d.ledger.Failures = append(d.ledger.Failures, failure)
	}
	nodes.recordFailures(d.ledger.Failures)
	addSuspects(d)
	if len(d.ledger.Failures) > 0 || len(wentBack(&d.ledger)) > 0 {
		d.ledger.Touched = max(d.ledger.Touched, d.in.Ledger.Touched) // the threshold is a share of these
	}
	failures := d.ledger.Failures
	sort.Slice(failures, func(i, j int) bool { return failures[i].Node < failures[j].Node })
	nodes.recordFailures(failures)
}

// stillBlames reports whether the revisions that a failure blames are still the targets.
func (d *draft) stillBlames(failure *Failure) bool {
	if len(failure.Targets) == 0 {
		return d.in.Ledger.Revision == d.in.Revision
	}
	return d.fleet.group.haveTargets(failure.Targets)
}

// A rollout halts once one in failureShare of the touched nodes has failed, and at least minFailures
// nodes (design section 3).
const (
	minFailures  = 2
	failureShare = 10
)

// haltOf returns why no more nodes start; "" if too few have failed to halt the rollout. unrecorded nodes
// have failed besides those in the ledger.
func haltOf(policy *Policy, l *Ledger, unrecorded int) string {
	threshold := max(minFailures, (l.Touched+failureShare-1)/failureShare)
	if given := policy.Threshold; given != nil {
		threshold = scaled(given, l.Touched)
	}
	failed := len(l.Failures) + unrecorded
	back := wentBack(l)
	failed += len(back)
	if failed < threshold {
		return ""
	}
	names := make([]string, len(l.Failures), failed)
	for i := range l.Failures {
		names[i] = l.Failures[i].Node
	}
	names = append(names, back...)
	return fmt.Sprintf("%d of %d started nodes failed (%s): roll out another revision, repair these nodes, or resume",
		failed, l.Touched, message.NamesOf(names, failed))
}

// wentBack returns the nodes that failed and have been pinned since, without those that failed again.
func wentBack(l *Ledger) (names []string) {
	for i := range l.Pins {
		p := &l.Pins[i]
		if p.Failed && !slices.Contains(names, p.Node) && !slices.ContainsFunc(l.Failures, func(f Failure) bool { return f.Node == p.Node }) {
			names = append(names, p.Node)
		}
	}
	return names
}
