// Package eviction decides which pods to evict from a node that is drained (design section
// 4).
//
// The outcome of a pass is a Result. Each pod is in one state:
//
//	out of scope       on another node, finished, or outside the policy's scope
//	skipped            the operator's own, excluded by podSelector, of a DaemonSet, or static
//	unconfirmed        the node is not Ready: nothing is evicted, pod status is not trusted
//	terminating        being deleted, and not gone yet; with a reason if it cannot be expected to go in time
//	running            of a Job that may complete
//	blocked            eviction would lose something that the policy protects; or its controller has
//	                   brought the pod to the cordoned node in the place of an evicted one; or, before
//	                   the driver is replaced, it would stay or come back
//	due                not evicted yet (only from Expect)
//	evicted, refused, gone, failed
//	                   the response to an eviction with the pod's UID as
//	                   precondition; not repeated within RetryInterval
//
// kubectl's drain filters decide what an eviction loses and which pods stay. Nothing else of
// that library is used: its loops wait, and its cordon has no precondition. The node is empty
// when only skipped pods are left.
package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// RetryInterval is the minimum time between two evictions of one pod, and between two passes
// over a node when no event triggers one earlier (design section 4).
const RetryInterval = 5 * time.Second

// endGrace is how long after the end of its grace period a pod may still exist, by two clocks that may be
// minutes apart, before the drain no longer counts on it to go.
const endGrace = 5 * time.Minute

// Self is the pod that this program runs in. It is never evicted, so that the program can
// finish the drain. The zero value matches no pod.
type Self struct {
	types.NamespacedName
	// UID of the pod; "" when only its name is known.
	UID types.UID
}

func (s Self) is(pod *corev1.Pod) bool {
	if s.UID != "" && s.UID == pod.UID {
		return true
	}
	return s.Name != "" && s.Name == pod.Name && s.Namespace == pod.Namespace
}

// Facts is what a pass observes.
type Facts struct {
	// NodeReady is the Ready condition of the node.
	NodeReady bool
	// Pods to consider, see Candidates.
	Pods []Pod
	// Self is the pod of this program.
	Self Self
	// Ahead is how far the clock of this process is ahead of that of the API server, 0 if that is not known.
	Ahead time.Duration
}

// Start is when the drain of a node began.
type Start struct {
	// Recorded is when it was begun, at the earliest if another process wrote that, which may have evicted what is deleted
	// since; zero if that was by a clock that differs from this one.
	Recorded time.Time
	// Counted is since when its time counts: since it was begun, or later if no manager worked on the node meanwhile.
	Counted time.Time
}

// StartAt returns the start of a drain that this process began at a time.
func StartAt(at time.Time) Start { return Start{Recorded: at, Counted: at} }

// Decide returns the pods about whose eviction the API server is to be asked now, and a result with
// the outcome of every other pod in scope and with the attempts. Those without a state are due; the
// others leave later and are not evicted yet, but others must not leave before it is known that they
// may. It decides for the whole node: while one pod cannot leave, no eviction is requested, because the
// drain would not empty the node. since is when the drain of the node began (design section 4).
func Decide(f Facts, p Policy, attempts Attempts, since Start, now time.Time) (leave []Outcome, r Result) {
	r = Result{NodeReady: f.NodeReady, Attempts: attempts.accepted(f.Pods), Controllers: controllersOf(f.Pods)}
	for i := range f.Pods {
		o, leaves := judge(&f, &p, &f.Pods[i], attempts, since, now)
		before, tried := attempts[o.UID]
		switch {
		case !leaves:
			r.add(o, nil)
		case tried && now.Sub(before.Time) < RetryInterval:
			r.add(o.requested(before.Outcome), &before)
		default:
			leave = append(leave, o)
		}
	}
	if !slices.ContainsFunc(r.Pods, Outcome.Stays) {
		return leave, r
	}
	for _, o := range leave {
		r.add(o.unrequested(), nil)
	}
	return nil, r
}

// Expect is Decide without asking: a pod has the outcome of its last attempt, or none.
func Expect(f Facts, p Policy, attempts Attempts, since Start, now time.Time) Result {
	leave, r := Decide(f, p, attempts, since, now)
	for _, o := range leave {
		if before, tried := attempts[o.UID]; tried {
			r.add(o.requested(before.Outcome), &before)
			continue
		}
		r.add(o.unrequested(), nil)
	}
	return r
}

// Leaving returns the UIDs of the pods that a drain removes, now or later, or is blocked by.
func Leaving(f Facts, p Policy) (uids []types.UID) {
	leave, r := Decide(f, p, nil, Start{}, time.Time{})
	for _, o := range append(r.Pods, leave...) {
		if o.State != Skipped || slices.ContainsFunc(leave, func(l Outcome) bool { return l.UID == o.UID }) {
			uids = append(uids, o.UID)
		}
	}
	return uids
}

// Candidates returns the pods of a node in the scope of a drain that have not finished,
// sorted by namespace and name. claims are those that were read, by pod UID.
func Candidates(node string, pods []corev1.Pod, claims map[types.UID]Claims, p Policy) []Pod {
	var found []Pod
	for i := range pods {
		pod, of := &pods[i], claims[pods[i].UID]
		if pod.Spec.NodeName != node || finished(pod) {
			continue
		}
		candidate := Pod{Pod: pod, accelerator: usesAccelerator(pod, of.Drivers, &p)}
		if of.Unknown != "" && !candidate.accelerator {
			candidate.Unknown = "it is unknown whether it uses the accelerator: " + of.Unknown
		}
		if candidate.Unknown != "" || inScope(pod, of.Drivers, &p) {
			found = append(found, candidate)
		}
	}
	slices.SortFunc(found, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// Concerns reports whether a pod is in the scope of a drain under the policy, with any
// outcome, or may be because of its ResourceClaims.
func (p Policy) Concerns(pod *corev1.Pod) bool {
	return !finished(pod) && inScope(pod, nil, &p) || p.NeedsClaims(pod)
}

// NeedsClaims reports whether the scope of a drain depends on the ResourceClaims of a pod, which
// must be read first.
func (p Policy) NeedsClaims(pod *corev1.Pod) bool {
	scoped := p.scope == topsv1.DrainAccelerator || p.scope == topsv1.DrainAll && p.replacesDriver && (isStatic(pod) || ofDaemonSet(pod))
	return scoped && !finished(pod) && !usesAccelerator(pod, nil, &p) && len(ClaimsOf(pod)) > 0
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func inScope(pod *corev1.Pod, drivers []string, p *Policy) bool {
	switch p.scope {
	case topsv1.DrainAll:
		return true
	case topsv1.DrainAccelerator:
		return usesAccelerator(pod, drivers, p)
	}
	return false
}

// judge returns the outcome of one pod, and whether it leaves: now if it has no state, else later.
func judge(f *Facts, p *Policy, pod *Pod, attempts Attempts, since Start, now time.Time) (o Outcome, leaves bool) {
	o = OutcomeOf(pod.Pod)
	with := func(s State, reason string) (Outcome, bool) {
		o.State, o.Reason = s, reason
		return o, false
	}
	if f.Self.is(pod.Pod) {
		return with(Skipped, "the operator runs in it")
	}
	if !p.podSelector.Matches(labels.Set(pod.Labels)) {
		return with(Skipped, "podSelector of the policy leaves it")
	}
	if state, reason, later := staying(pod, p); state != "" {
		o, _ = with(state, reason)
		return o, later && f.NodeReady && pod.DeletionTimestamp == nil
	}
	if pod.Unknown != "" {
		return with(Failed, pod.Unknown)
	}
	if pod.DeletionTimestamp != nil {
		o.Since = daemonset.DeletedAt(pod.Pod)
	}
	blocked := cmp.Or(blockedBy(pod, p), attempts.blockedBy(pod))
	switch {
	case !f.NodeReady:
		return with(Unconfirmed, "the node is not Ready")
	case pod.DeletionTimestamp != nil:
		return with(Terminating, overstays(f, p, pod.Pod, attempts, since, now))
	case ofJob(pod.Pod) && now.Before(since.Counted.Add(p.jobs)):
		o, _ = with(Running, blocked)
		return o, blocked == ""
	case blocked != "":
		return with(Blocked, blocked)
	}
	return o, true
}

// overstays returns why a pod that terminates cannot be expected to go in the time of the drain, "" if it
// can. One that the drain evicted itself, or may have evicted in another process, may end at any time, and is waited for.
func overstays(f *Facts, p *Policy, pod *corev1.Pod, attempts Attempts, since Start, now time.Time) string {
	end, evicted := graceEnds(f, pod, attempts, since, now)
	shown := end.Add(-f.Ahead).UTC().Format(time.RFC3339) // as the API server shows times
	switch {
	case now.After(end.Add(endGrace)):
		return fmt.Sprintf("although its grace period ended at %s: see its finalizers, and the kubelet", shown)
	case !evicted && daemonset.DeletedAt(pod).Add(f.Ahead).Before(since.Recorded) && end.After(since.Counted.Add(p.timeout)):
		return fmt.Sprintf("until %s, and the drain has %s", shown, p.timeout)
	}
	return ""
}

// graceEnds returns when the grace period of a pod that terminates ends by the clock of this process, and whether it evicted the pod.
// It is counted from the eviction, else from the deletion, which the API server wrote by its own clock. If that is in the
// future even so, it is counted from the beginning of the drain.
func graceEnds(f *Facts, pod *corev1.Pod, attempts Attempts, since Start, now time.Time) (end time.Time, evicted bool) {
	end, began := pod.DeletionTimestamp.Add(f.Ahead), daemonset.DeletedAt(pod).Add(f.Ahead)
	tried := attempts[pod.UID]
	switch evicted = tried.Outcome.State == Evicted; {
	case evicted:
		end = tried.Time.Add(end.Sub(began))
	case began.After(now.Add(endGrace)):
		end = since.Counted.Add(end.Sub(began))
	}
	return end, evicted
}

// ofJob reports whether a pod belongs to a Job, of Kubernetes or of another API group such as
// volcano: both complete on their own.
func ofJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}
