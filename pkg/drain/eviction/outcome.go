package eviction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/message"
)

// State is the state of one pod after one pass, from a closed list.
type State string

const (
	// Evicted means that its eviction was accepted, in this pass or within RetryInterval before.
	Evicted State = "evicted"
	// Refused means that a PodDisruptionBudget refused the eviction.
	Refused State = "refused"
	// Failed means that it could not be evicted, or not be judged, because of an error.
	Failed State = "failed"
	// Gone means that it was gone, or replaced by another pod of the same name, when its eviction
	// arrived.
	Gone State = "gone"
	// Terminating means that it is being deleted and still exists.
	Terminating State = "terminating"
	// Running means that it belongs to a Job that may complete.
	Running State = "running"
	// Blocked means that the policy protects it, because an eviction would lose something.
	Blocked State = "blocked"
	// Unconfirmed means that its node is not Ready, so it is unknown whether it runs.
	Unconfirmed State = "unconfirmed"
	// Due means that the next pass evicts it, or that a dry run of its eviction was accepted.
	Due State = "due"
	// Skipped means that it stays on the node, which counts as empty nevertheless.
	Skipped State = "skipped"
)

// Outcome is the state of one pod after one pass.
type Outcome struct {
	// Pod by namespace and name, and UID.
	Pod types.NamespacedName
	UID types.UID
	// Graceless: the pod's own grace period is zero.
	Graceless bool
	// State of the pod.
	State State
	// Reason explains the state for a person; "" when the state says it all. Of a Running pod it is
	// what keeps it on the node if its Job does not complete in time, of a Terminating one why it cannot be
	// expected to go in time.
	Reason string
	// Budget is the PodDisruptionBudget that refused the eviction. Its name is "" when the
	// response does not name it.
	Budget types.NamespacedName
	// Since is when the deletion of the pod began; set only for Terminating pods, Unconfirmed pods that
	// are being deleted, and in the attempts for evicted pods that were seen terminating.
	Since time.Time
}

// OutcomeOf returns the outcome of a pod with no state yet.
func OutcomeOf(pod *corev1.Pod) Outcome {
	return Outcome{Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, Graceless: ptr.Equal(pod.Spec.TerminationGracePeriodSeconds, ptr.To(int64(0)))}
}

// Stays reports whether the pod cannot leave the node at present, so that evicting others is
// futile: the policy protects it, now or when the time of its Job is over, a budget refuses, its
// eviction fails, or it terminates and does not end.
func (o Outcome) Stays() bool {
	return o.State == Blocked || o.State == Refused || o.State == Failed || o.overstays() || o.State == Running && o.Reason != ""
}

func (o Outcome) overstays() bool { return o.State == Terminating && o.Reason != "" }

// requested returns the outcome of a pod that leaves from the response to its eviction. One that leaves
// later keeps its state, unless it could not leave: a Job may still complete.
func (o Outcome) requested(response Outcome) Outcome {
	switch {
	case o.State == "":
		return response
	case !response.Stays():
		return o
	case o.State == Running:
		o.Reason = response.wording()
		return o
	}
	return response
}

// unrequested returns the outcome of a pod that leaves, before its eviction is requested.
func (o Outcome) unrequested() Outcome {
	if o.State == "" {
		o.State = Due
	}
	return o
}

// Attempt is an eviction that was tried, or its dry run.
type Attempt struct {
	// Time of the attempt.
	Time time.Time
	// Outcome of the attempt.
	Outcome Outcome
	// Controllers of the pods in the scope of the drain at that time, see Result.
	Controllers map[types.UID]types.UID
	// Returned: its controller has brought another pod to the cordoned node since.
	Returned bool
	// Earlier: it was in an earlier drain of the node.
	Earlier bool
}

// Attempts are the last evictions by pod UID; those that were accepted stay when the pod is gone. They belong
// to the drain of one node and need not be stored: without them the evictions are retried at once, and a pod
// that comes back is evicted once more.
type Attempts map[types.UID]Attempt

// Result is the outcome of one pass.
type Result struct {
	// Pods in the scope of the drain, sorted by namespace and name.
	Pods []Outcome
	// NodeReady is false when no kubelet can confirm the state of the node.
	NodeReady bool
	// Attempts for the next pass.
	Attempts Attempts
	// Controllers of the pods in scope, by the UIDs of both; "" for none.
	Controllers map[types.UID]types.UID
}

// Of returns the pods in a state, in order.
func (r Result) Of(s State) []Outcome {
	var found []Outcome
	for _, o := range r.Pods {
		if o.State == s {
			found = append(found, o)
		}
	}
	return found
}

// Done reports whether the node was seen empty: it is Ready and has only skipped pods. The
// scheduler may bind a pod at the moment of the cordon, so check again right before the
// driver is touched (invariant S8).
func (r Result) Done() bool {
	return r.NodeReady && len(r.Of(Skipped)) == len(r.Pods)
}

// Ending reports whether all that is left are pods that terminate, and can be expected to go.
func (r Result) Ending() bool {
	return r.NodeReady && !r.Done() && !slices.ContainsFunc(r.Pods, func(o Outcome) bool {
		return o.State != Skipped && (o.State != Terminating || o.overstays())
	})
}

// Blocker is a kind of what keeps a drain from its end until someone acts.
type Blocker string

// Blockers of a drain: a PodDisruptionBudget refuses, the policy keeps a pod, or a pod terminates and
// does not end.
const (
	ByDisruptionBudget Blocker = "disruption-budget"
	ByPolicy           Blocker = "policy"
	ByTerminating      Blocker = "terminating"
)

// Blockers are all of them.
var Blockers = []Blocker{ByDisruptionBudget, ByPolicy, ByTerminating}

// Blockers returns what blocks the drain, in the order of Blockers; none if nothing does.
func (r Result) Blockers() (all []Blocker) {
	if len(r.Of(Refused)) > 0 {
		all = append(all, ByDisruptionBudget)
	}
	if len(r.Of(Blocked)) > 0 {
		all = append(all, ByPolicy)
	}
	if slices.ContainsFunc(r.Pods, Outcome.overstays) {
		all = append(all, ByTerminating)
	}
	return all
}

// Stuck reports whether the drain needs action by someone else.
func (r Result) Stuck() bool { return len(r.Blockers()) > 0 }

// Message describes what blocks the drain, for a status or an event, "" when it is done. It
// is stable as long as nothing changes.
func (r Result) Message() string {
	var parts []string
	if !r.NodeReady {
		parts = append(parts, "the node is not Ready, so no kubelet can confirm that pods are gone")
	}
	for _, w := range wordings {
		groups := map[string][]string{}
		for _, o := range r.Of(w.state) {
			key := w.of(o)
			groups[key] = append(groups[key], o.Pod.String())
		}
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			parts = append(parts, key+": "+message.Names(groups[key]))
		}
	}
	return strings.Join(parts, "; ")
}

type wording struct {
	state State
	of    func(Outcome) string
}

// wordings describe what blocks a drain, the most urgent first. Pods with the same text are
// listed together.
var wordings = []wording{
	{Refused, func(o Outcome) string { return fmt.Sprintf("PodDisruptionBudget %s refuses", o.Budget) }},
	{Blocked, func(o Outcome) string { return "blocked, " + o.Reason }},
	{Failed, func(o Outcome) string { return "failed, " + o.Reason }},
	{Unconfirmed, func(Outcome) string { return "not confirmed" }},
	{Running, func(o Outcome) string {
		if o.Reason != "" {
			return "waiting for Jobs to complete, then blocked, " + o.Reason
		}
		return "waiting for Jobs to complete"
	}},
	{Due, func(Outcome) string { return "to be evicted" }},
	{Evicted, func(Outcome) string { return "evicted" }},
	{Gone, func(Outcome) string { return "gone" }},
	{Terminating, func(o Outcome) string {
		if o.Reason != "" {
			return "terminating " + o.Reason
		}
		return "terminating"
	}},
}

// wording returns what blocks a drain because of this pod, without its name.
func (o Outcome) wording() string {
	i := slices.IndexFunc(wordings, func(w wording) bool { return w.state == o.State })
	return wordings[i].of(o)
}

// Add adds the outcomes of pods that leave, from the responses to their evictions in the same order,
// which were requested at now; the zero Outcome means not requested.
func (r *Result) Add(leave, responses []Outcome, now time.Time) {
	for i, o := range leave {
		response := responses[i] //nolint:gosec // G602: there is one for each
		if response.State == "" {
			r.add(o.unrequested(), nil)
			continue
		}
		r.add(o.requested(response), &Attempt{Time: now, Outcome: response, Controllers: r.Controllers})
	}
}

// add adds an outcome, with its attempt, nil for none.
func (r *Result) add(o Outcome, of *Attempt) {
	r.Pods = append(r.Pods, o)
	if of != nil {
		r.Attempts[o.UID] = *of
	}
	slices.SortFunc(r.Pods, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
}
