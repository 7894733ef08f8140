package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Node is the state of one node in the rollout of a gr.
type Node struct {
	Name string `json:"name"`
	// State is updated, in-flight, pending, held, skipped, failed or outdated; outdated
	// only without an update strategy.
	State string `json:"state"`
	// Reason is one of those of the rollout, of operations or of this package.
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Stuck is true if the node seems to need help.
	Stuck bool `json:"stuck"`
	// Do is what to do about it; empty for nothing.
	Do        string     `json:"do,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
}

// Operation is the operation on a node.
type Operation struct {
	ID    string `json:"id"`
	Phase string `json:"phase"`
	// Task is the current one, or the one that failed.
	Task    string      `json:"task,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
	// KeptCordoned is true if the operation has ended and its node is kept cordoned.
	KeptCordoned bool `json:"held"`
}

// A node in flight is slow after slowFactor times the usual time, but not before
// slowAtLeast, the default deadline without a policy.
const (
	slowFactor  = 2
	slowAtLeast = 10 * time.Minute
)

// upgradesOf returns NodeUpgrades by node.
func upgradesOf(list []topsv1.NodeUpgrade) map[string]*topsv1.NodeUpgrade {
	by := make(map[string]*topsv1.NodeUpgrade, len(list))
	for i := range list {
		by[list[i].Name] = &list[i]
	}
	return by
}

// operationOf returns the operation of a node for a rollout, namespace/name; nil if there
// is none or it belongs to another rollout.
func operationOf(upgrade *topsv1.NodeUpgrade, rolloutKey string) *Operation {
	if upgrade == nil || upgrade.Status.Operation == nil || upgrade.Status.Operation.Rollout != rolloutKey {
		return nil
	}
	s := upgrade.Status.Operation
	o := &Operation{ID: s.ID, Phase: string(s.Phase), Task: s.Task, Reason: s.Reason, Message: s.Message, Since: s.Since, KeptCordoned: s.Held}
	if o.Task == "" {
		for _, t := range s.Tasks {
			if t.State == topsv1.OperationTaskFailed {
				o.Task = t.Name
			}
		}
	}
	return o
}

// final reports whether the operation has ended.
func (o *Operation) final() bool { return topsv1.OperationPhase(o.Phase).Final() }

// smooth are the reasons of an operation that proceeds normally.
var smooth = []string{"", operation.ReasonInProgress, operation.ReasonAwaitingSlot, operation.ReasonCardsInUse, operation.ReasonSucceeded}

// inFlight describes a node with a slot.
func inFlight(dro *topsv1.DaemonRollout, slot *topsv1.NodeSlot, op *Operation, now time.Time) Node {
	n := Node{Name: slot.Node, State: string(rollout.InFlight), Reason: slot.Step, Since: &slot.Since, Operation: op}
	if op != nil && slot.Operation == op.ID {
		n.Message = op.Message
		if !op.final() && !slices.Contains(smooth, op.Reason) {
			n.Reason, n.Since, n.Stuck = op.Reason, &op.Since, true
			return n
		}
	}
	if slot.Step == string(rollout.ReasonNodeLost) {
		n.Stuck, n.Message = true, cmp.Or(n.Message, "the node went offline after it was started")
		return n
	}
	if rollout.Reason(slot.Step).IsDenied() {
		n.Stuck, n.Message = true, cmp.Or(n.Message, "the API server or an admission webhook denies a write that the node waits for")
		return n
	}
	usual := time.Duration(dro.Status.UsualSeconds) * time.Second
	if took := now.Sub(slot.Since.Time); took > max(slowAtLeast, slowFactor*usual) {
		n.Stuck, n.Reason = true, ReasonSlow
		n.Message = sentence(slot.Step, n.Message)
		if usual > 0 {
			n.Message += fmt.Sprintf("; a node usually takes %s", duration.HumanDuration(usual))
		}
	}
	return n
}

// noted describes a node that the rollout lists as failed or skipped.
func noted(state rollout.State, note *topsv1.NodeNote, op *Operation) Node {
	n := Node{Name: note.Node, State: string(state), Reason: note.Reason, Message: note.Message, Since: &note.Since, Operation: op}
	n.Stuck = state == rollout.Failed
	if n.Message == "" && op != nil && state == rollout.Failed {
		n.Message = op.Message
	}
	return n
}

// deferred describes a node whose last operation for the current revision was deferred.
func deferred(dro *topsv1.DaemonRollout, upgrade *topsv1.NodeUpgrade, op *Operation, now time.Time) *Node {
	if op == nil || upgrade.Status.Operation.Phase != topsv1.OperationDeferred || upgrade.Status.Operation.Revision != dro.Status.Revision {
		return nil
	}
	n := &Node{Name: upgrade.Name, State: string(rollout.Pending), Reason: string(rollout.ReasonDeferred), Since: &op.Since, Stuck: true, Operation: op,
		Message: sentence(op.Reason, op.Message)}
	if again, _ := operation.Backoff(upgrade, dro.Status.Revision, now); again.After(now) {
		n.Message += "; will be retried in " + duration.HumanDuration(again.Sub(now))
	}
	return n
}

// advised adds what to do, first about what blocks the operation. One that is over blocks nothing, but if it was deferred, its
// reason says what to do before the next one, unless that is a command about the operation itself.
func (n Node) advised(gr string) Node {
	task := ""
	if op := n.Operation; op != nil {
		task = strings.TrimPrefix(op.Task, n.Name+"_")
		over := op.final() && !op.KeptCordoned
		if n.State != string(rollout.Updated) && (!over || n.Reason == string(rollout.ReasonDeferred) && !overrides(op.Reason)) {
			n.Do = adviceFor(op.Reason, gr, n.Name, task)
		}
	}
	if n.Do == "" || n.Operation.final() && n.State == string(rollout.Failed) {
		n.Do = cmp.Or(adviceFor(n.Reason, gr, n.Name, task), n.Do)
	}
	return n
}

// troubled returns the nodes of a rollout that need attention: failed, stuck, deferred,
// skipped, in that order, each sorted by name. A node whose last operation was deferred may be something else by now: what the rollout
// lists it as, or held, unless the operation keeps it cordoned.
func troubled(gr string, dro *topsv1.DaemonRollout, upgrades []topsv1.NodeUpgrade, now time.Time) []Node {
	if dro == nil {
		return nil
	}
	by, key := upgradesOf(upgrades), dro.Namespace+"/"+dro.Name
	seen := map[string]bool{}
	var list []Node
	add := func(n Node) {
		seen[n.Name] = true
		list = append(list, n.advised(gr))
	}
	for i := range dro.Status.Failed {
		f := &dro.Status.Failed[i]
		add(noted(rollout.Failed, f, operationOf(by[f.Node], key)))
	}
	for i := range dro.Status.InFlight {
		slot := &dro.Status.InFlight[i]
		seen[slot.Node] = true
		if n := inFlight(dro, slot, operationOf(by[slot.Node], key), now); n.Stuck {
			add(n)
		}
	}
	for i := range dro.Status.Skipped {
		s := &dro.Status.Skipped[i]
		add(noted(rollout.Skipped, s, nil))
	}
	for i := range upgrades {
		n := deferred(dro, &upgrades[i], operationOf(&upgrades[i], key), now)
		if n != nil && !seen[n.Name] && (n.Operation.KeptCordoned || len(daemonset.HoldsOf(&upgrades[i])) == 0) {
			add(*n)
		}
	}
	slices.SortStableFunc(list, func(a, b Node) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.Name, b.Name)) })
	return list
}

// rank orders nodes by severity.
func rank(n Node) int {
	return slices.Index([]string{string(rollout.Failed), string(rollout.InFlight), string(rollout.Held), string(rollout.Pending), string(rollout.Skipped)}, n.State)
}

// sentence returns "what: message", or the one that is set.
func sentence(what, message string) string {
	if what == "" || message == "" {
		return what + message
	}
	return what + ": " + message
}
