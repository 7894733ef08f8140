package eviction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/message"
)

// State is what became of one pod in one pass, from a closed list.
type State string

const (
	// Evicted was asked to leave, in this pass or the moment before.
	Evicted State = "evicted"
	// Refused is held by a PodDisruptionBudget.
	Refused State = "refused"
	// Failed could not be evicted, or not be judged, because of an error.
	Failed State = "failed"
	// Gone is a pod that had left, or given its name to another, when its eviction arrived.
	Gone State = "gone"
	// Terminating was asked to leave before and has not left.
	Terminating State = "terminating"
	// Running is a pod of a Job that is left to complete.
	Running State = "running"
	// Blocked is kept by the policy, because an eviction loses something.
	Blocked State = "blocked"
	// Unconfirmed is on a node that is not Ready: whether it runs, nobody can say.
	Unconfirmed State = "unconfirmed"
	// Due is to be evicted by the next pass.
	Due State = "due"
	// Skipped is left on the node, which counts as empty with it.
	Skipped State = "skipped"
)

// Outcome is what became of one pod in one pass.
type Outcome struct {
	// Pod by namespace and name, and UID.
	Pod types.NamespacedName
	UID types.UID
	// State of the pod.
	State State
	// Reason says why, for a person; "" when the state says all.
	Reason string
	// Budget is the PodDisruptionBudget that refused the eviction. Its name is ""
	// when the API server did not say it.
	Budget types.NamespacedName
	// Since is when the pod was asked to terminate; zero in all states but
	// Terminating and Unconfirmed, and for an Unconfirmed pod that was not asked.
	Since time.Time
}

// Attempt is an eviction that was tried.
type Attempt struct {
	// Time at which it was tried.
	Time time.Time
	// Outcome of it.
	Outcome Outcome
}

// Attempts are the last evictions by the UID of the pod. They belong to the
// drain of one node and need not be stored: who forgets them tries again at once.
type Attempts map[types.UID]Attempt

// Result is what one pass found and did.
type Result struct {
	// Pods that the drain is about, sorted by namespace and name.
	Pods []Outcome
	// NodeReady is false when no kubelet can confirm anything on the node.
	NodeReady bool
	// Attempts for the next pass.
	Attempts Attempts
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

// Done reports whether the node was seen empty: it is Ready and has none but
// skipped pods. The scheduler may have bound a pod in the moment of the cordon,
// so ask again right before the driver is touched (invariant S8).
func (r Result) Done() bool {
	return r.NodeReady && len(r.Of(Skipped)) == len(r.Pods)
}

// Stuck reports whether somebody else has to act before the node gets empty: a
// budget refuses, or the policy blocks.
func (r Result) Stuck() bool {
	return len(r.Of(Refused)) > 0 || len(r.Of(Blocked)) > 0
}

// Message says for a status or an event what holds the drain, "" when it is done.
// It is the same as long as nothing changes.
func (r Result) Message() string {
	var parts []string
	if !r.NodeReady {
		parts = append(parts, "the node is not Ready, so no kubelet can confirm that pods are gone")
	}
	for _, wording := range wordings {
		groups := map[string][]string{}
		for _, o := range r.Of(wording.state) {
			key := wording.of(o)
			groups[key] = append(groups[key], o.Pod.String())
		}
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			parts = append(parts, key+": "+message.Names(groups[key]))
		}
	}
	return strings.Join(parts, "; ")
}

// wordings say what holds a drain, the most urgent first. Pods of the same words
// are named together.
var wordings = []struct {
	state State
	of    func(Outcome) string
}{
	{Refused, func(o Outcome) string { return fmt.Sprintf("PodDisruptionBudget %s refuses", o.Budget) }},
	{Blocked, func(o Outcome) string { return "blocked, " + o.Reason }},
	{Failed, func(o Outcome) string { return "failed, " + o.Reason }},
	{Unconfirmed, func(Outcome) string { return "not confirmed" }},
	{Running, func(Outcome) string { return "waiting for Jobs to complete" }},
	{Due, func(Outcome) string { return "to be evicted" }},
	{Evicted, func(Outcome) string { return "evicted" }},
	{Gone, func(Outcome) string { return "gone" }},
	{Terminating, func(Outcome) string { return "terminating" }},
}

// Add takes in the outcome of an eviction that was tried at now.
func (r *Result) Add(o Outcome, now time.Time) { r.add(o, &Attempt{Time: now, Outcome: o}) }

// add takes in an outcome, with the attempt that it is of, nil for none.
func (r *Result) add(o Outcome, of *Attempt) {
	r.Pods = append(r.Pods, o)
	if of != nil {
		r.Attempts[o.UID] = *of
	}
	slices.SortFunc(r.Pods, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
}
