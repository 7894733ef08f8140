// Package eviction decides which pods to evict from a node that is drained (design section
// 4).
//
// The outcome of a pass is a Result. Each pod is in one state:
//
//	out of scope       on another node, finished, or outside the policy's scope
//	skipped            the operator's own, excluded by podSelector, of a DaemonSet, or static
//	unconfirmed        the node is not Ready: nothing is evicted, pod status is not trusted
//	terminating        being deleted, and not gone yet
//	running            of a Job that may complete
//	blocked            eviction would lose something that the policy protects
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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// RetryInterval is the minimum time between two evictions of one pod, and between two passes
// over a node when no event triggers one earlier (design section 4).
const RetryInterval = 5 * time.Second

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
}

// Pod is a pod in the scope of a drain, with the verdict of kubectl's drain filters.
type Pod struct {
	*corev1.Pod
	// Stays is why no policy lets the pod be evicted: it belongs to a DaemonSet or is static.
	// "" when it may be evicted.
	Stays string
	// Unknown is why the filters have no verdict: the DaemonSet could not be looked up.
	Unknown string
	// LosesData and LosesPod are what an eviction loses: emptyDir volumes, and the pod itself
	// if no controller recreates it. "" when nothing.
	LosesData, LosesPod string
}

// Decide returns the pods to evict now, and a result with the outcome of every other pod in
// scope and with the attempts. since is when the drain of the node began (design section 4).
func Decide(f Facts, p Policy, attempts Attempts, since, now time.Time) (evict []*corev1.Pod, r Result) {
	r = Result{NodeReady: f.NodeReady, Attempts: Attempts{}}
	for i := range f.Pods {
		pod := &f.Pods[i]
		before, tried := attempts[pod.UID]
		switch o, act := judge(&f, &p, pod, since, now); {
		case !act:
			r.add(o, nil)
		case tried && now.Sub(before.Time) < RetryInterval:
			r.add(before.Outcome, &before)
		default:
			evict = append(evict, pod.Pod)
		}
	}
	return evict, r
}

// Expect is Decide without evictions: a pod to be evicted has the outcome of its last
// attempt, or is Due.
func Expect(f Facts, p Policy, attempts Attempts, since, now time.Time) Result {
	evict, r := Decide(f, p, attempts, since, now)
	for _, pod := range evict {
		if before, tried := attempts[pod.UID]; tried {
			r.add(before.Outcome, &before)
			continue
		}
		o := OutcomeOf(pod)
		o.State = Due
		r.add(o, nil)
	}
	return r
}

// Candidates returns the pods of a node in the scope of a drain that have not finished,
// sorted by namespace and name.
func Candidates(node string, pods []corev1.Pod, p Policy) []*corev1.Pod {
	var found []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == node && p.Concerns(pod) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// Concerns reports whether a pod is in the scope of a drain under the policy, whatever its
// outcome.
func (p Policy) Concerns(pod *corev1.Pod) bool { return !finished(pod) && inScope(pod, &p) }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func inScope(pod *corev1.Pod, p *Policy) bool {
	switch p.scope {
	case topsv1.DrainAll:
		return true
	case topsv1.DrainAccelerator:
		return usesAccelerator(pod, p)
	}
	return false
}

// judge returns the outcome of one pod, and whether to evict it now.
func judge(f *Facts, p *Policy, pod *Pod, since, now time.Time) (o Outcome, evict bool) {
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
	switch {
	case pod.Stays != "":
		return with(Skipped, pod.Stays)
	case pod.Unknown != "":
		return with(Failed, pod.Unknown)
	}
	if pod.DeletionTimestamp != nil {
		o.Since = deletedAt(pod.Pod)
	}
	blocked := blockedBy(pod, p)
	switch {
	case !f.NodeReady:
		return with(Unconfirmed, "the node is not Ready")
	case pod.DeletionTimestamp != nil:
		return with(Terminating, "")
	case ofJob(pod.Pod) && now.Before(since.Add(p.jobs)):
		return with(Running, "its Job is left to complete")
	case blocked != "":
		return with(Blocked, blocked)
	}
	return o, true
}

// blockedBy returns what an eviction would lose that the policy protects, "" for nothing.
func blockedBy(pod *Pod, p *Policy) string {
	var kept []string
	if pod.LosesData != "" && !p.deleteEmptyDir {
		kept = append(kept, fmt.Sprintf("%s (drain.emptyDir: %s evicts them)", pod.LosesData, topsv1.DrainDelete))
	}
	if pod.LosesPod != "" && !p.deleteUnmanaged {
		kept = append(kept, fmt.Sprintf("%s (drain.unmanaged: %s evicts them)", pod.LosesPod, topsv1.DrainDelete))
	}
	return strings.Join(kept, ", ")
}

// OutcomeOf returns the outcome of a pod with no state yet.
func OutcomeOf(pod *corev1.Pod) Outcome {
	return Outcome{Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID}
}

// deletedAt returns when the deletion of a pod began: deletionTimestamp is the end of the
// grace period.
func deletedAt(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time
	if pod.DeletionGracePeriodSeconds == nil {
		return end
	}
	return end.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// ofJob reports whether a pod belongs to a Job, of Kubernetes or of another API group such as
// volcano: both complete on their own.
func ofJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}
