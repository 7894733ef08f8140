package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	// Node that is emptied, and whether its kubelet answers.
	Node      string
	NodeReady bool
	// Pods bound to the node, in any order.
	Pods []corev1.Pod
	// DaemonSets that own pods in question: nil when they exist, otherwise how
	// looking them up ended.
	DaemonSets map[types.NamespacedName]error
	// Self is the pod of this program.
	Self Self
}

// Decide says what a pass does: evict are the pods to evict now, and the result
// has the outcome of every other pod the drain is about, with their attempts.
// since is when the drain of the node began (design section 4).
func Decide(f Facts, p Policy, attempts Attempts, since, now time.Time) (evict []*corev1.Pod, r Result) {
	r = Result{NodeReady: f.NodeReady, Attempts: Attempts{}}
	for _, pod := range inQuestion(&f, &p) {
		before, tried := attempts[pod.UID]
		o, act := judge(&f, &p, pod, since, now)
		switch {
		case act && tried && now.Sub(before.Time) < RetryInterval:
			o = before.Outcome
			r.Attempts[pod.UID] = before
		case act:
			evict = append(evict, pod)
			continue
		}
		r.Pods = append(r.Pods, o)
	}
	return evict, r
}

// inQuestion returns the pods that the drain is about, sorted by namespace and
// name: those in scope that can still run something.
func inQuestion(f *Facts, p *Policy) []*corev1.Pod {
	var found []*corev1.Pod
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Spec.NodeName == f.Node && p.Concerns(pod) {
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
func judge(f *Facts, p *Policy, pod *corev1.Pod, since, now time.Time) (o Outcome, evict bool) {
	o = outcomeOf(pod)
	with := func(s State, reason string) (Outcome, bool) {
		o.State, o.Reason = s, reason
		return o, false
	}
	if f.Self.is(pod) {
		return with(Skipped, "the operator runs in it")
	}
	if !p.podSelector.Matches(labels.Set(pod.Labels)) {
		return with(Skipped, "podSelector of the policy leaves it")
	}
	said := filter(pod, f.DaemonSets[daemonSetOf(pod)])
	switch {
	case said.stays != "":
		return with(Skipped, said.stays)
	case said.unknown != "":
		return with(Failed, said.unknown)
	}
	if pod.DeletionTimestamp != nil {
		o.Since = askedToLeave(pod)
	}
	blocked := blockedBy(said, p)
	switch {
	case !f.NodeReady:
		return with(Unconfirmed, "the node is not Ready")
	case pod.DeletionTimestamp != nil:
		return with(Terminating, "")
	case ofJob(pod) && now.Before(since.Add(p.jobs)):
		return with(Running, "its Job is left to complete")
	case blocked != "":
		return with(Blocked, blocked)
	}
	return o, true
}

// blockedBy says what an eviction loses that the policy keeps, "" for nothing.
func blockedBy(said filtered, p *Policy) string {
	var kept []string
	if said.losesData != "" && !p.deleteEmptyDir {
		kept = append(kept, fmt.Sprintf("%s (drain.emptyDir: %s evicts them)", said.losesData, topsv1.DrainDelete))
	}
	if said.losesPod != "" && !p.deleteUnmanaged {
		kept = append(kept, fmt.Sprintf("%s (drain.unmanaged: %s evicts them)", said.losesPod, topsv1.DrainDelete))
	}
	return strings.Join(kept, ", ")
}

func outcomeOf(pod *corev1.Pod) Outcome {
	return Outcome{Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID}
}

// askedToLeave is when the deletion of a pod began: its deletionTimestamp is when
// the grace period ends.
func askedToLeave(pod *corev1.Pod) time.Time {
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

// daemonSetOf returns the DaemonSet that owns a pod, zero when none does.
func daemonSetOf(pod *corev1.Pod) types.NamespacedName {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}
}
