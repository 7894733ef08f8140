// Package eviction decides which pods leave a node that is drained (design section 4).
//
// What a pass found and did is a Result. A pod is in one state:
//
//	not its business   on another node, finished, or not in the policy's scope
//	skipped            the operator itself, left by podSelector, of a DaemonSet, static
//	unconfirmed        the node is not Ready: nothing is evicted, nothing believed
//	terminating        asked before, and not gone yet
//	running            of a Job that is left to complete
//	blocked            an eviction loses something that the policy keeps
//	due                an eviction has not been tried yet (only Expect shows it)
//	evicted, refused, gone, failed
//	                   what the API server said to an eviction, with the pod's UID
//	                   as precondition; not asked again within RetryInterval
//
// What an eviction loses, and which pods stay, is for kubectl's drain filters to
// say; of that library nothing else is used: its loops wait, and its cordon has
// no precondition. The node is empty when all that is left is skipped.
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

// RetryInterval is the least time between two evictions of one pod, and between
// two passes over a node when nothing else asks for one (design section 4).
const RetryInterval = 5 * time.Second

// Self is the pod that this program runs in. It is never evicted: who evicts
// itself does not finish. The zero value is no pod.
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

// Facts are what a pass sees.
type Facts struct {
	// NodeReady reports whether the kubelet of the node answers.
	NodeReady bool
	// Pods that the drain is about, see Candidates.
	Pods []Pod
	// Self is the pod of this program.
	Self Self
}

// Pod is a pod that a drain is about, with what kubectl's drain filters say of it.
type Pod struct {
	*corev1.Pod
	// Stays is why the pod is not evicted whatever the policy: it belongs to a
	// DaemonSet or is static. "" when it may be evicted.
	Stays string
	// Unknown is why the filters cannot tell: the DaemonSet could not be looked up.
	Unknown string
	// LosesData and LosesPod are why an eviction loses something: emptyDir volumes,
	// the pod itself, which no controller brings back. "" when it does not.
	LosesData, LosesPod string
}

// Decide says what a pass does: evict are the pods to evict now, and the result
// has the outcome of every other pod the drain is about, with their attempts.
// since is when the drain of the node began (design section 4).
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

// Expect is Decide for who evicts nothing: a pod that is to be evicted has the outcome
// of its last attempt, or is Due.
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

// Candidates returns the pods that a drain of a node is about, sorted by namespace and
// name: those in scope that can still run something.
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

// Concerns reports whether a drain under the policy is about a pod, whatever becomes of it.
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

// judge says what becomes of one pod, and whether it is to be evicted now.
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

// blockedBy says what an eviction loses that the policy keeps, "" for nothing.
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

// OutcomeOf is the outcome of a pod of which nothing is known yet.
func OutcomeOf(pod *corev1.Pod) Outcome {
	return Outcome{Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID}
}

// deletedAt is when the deletion of a pod began: its deletionTimestamp is when
// the grace period ends.
func deletedAt(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time
	if pod.DeletionGracePeriodSeconds == nil {
		return end
	}
	return end.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// ofJob reports whether a pod belongs to a Job, of Kubernetes or of another group
// such as volcano's: both end by themselves.
func ofJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}
