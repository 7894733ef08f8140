package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// KeptOperations is how many operations are kept, for people and for repeated keys.
const KeptOperations = 20

// State is the state of an operation or of a part of it.
type State string

// States of an operation. Done, Failed, Dropped and Withdrawn are final.
const (
	// Queued: kept on this node until the API server is available.
	Queued State = "Queued"
	// Waiting: the operator has received it; the message says what it waits for.
	Waiting State = "Waiting"
	Running State = "Running"
	Done    State = "Done"
	Failed  State = "Failed"
	// Dropped: ended before anything was done; the message says why.
	Dropped State = "Dropped"
	// Withdrawn: canceled on the node before it started.
	Withdrawn State = "Withdrawn"
)

// Final reports whether a state is final.
func (s State) Final() bool {
	return s == Done || s == Failed || s == Dropped || s == Withdrawn
}

// Operation is an operation in the journal: what it upgrades, and its outcome. A new one has only
// Wanted; Begin sets the rest.
type Operation struct {
	// Sequence orders the operations of this node: unique and increasing.
	Sequence uint64      `json:"sequence"`
	ID       string      `json:"id"`
	Wanted   Wanted      `json:"wish"`
	Accepted metav1.Time `json:"accepted"`
	// Queued: not sent to the operator yet.
	Queued bool `json:"queued,omitempty"`
	// Withdrawn: the parts that had not started are canceled. While it is Queued, they and the requests that wait beside it
	// are to be.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// RollbackKeys are the ids that OperationID derives from the keys of rollbacks that returned this operation
	// and started none. A key is written before the requests are withdrawn: until one of them is, a repeated call
	// is a new one.
	RollbackKeys []string `json:"rollbackKeys,omitempty"`
	Parts        []Part   `json:"parts,omitempty"`
	// Adopted: it was read from its requests after the journal was lost, and of Wanted only Rollback is known.
	Adopted bool `json:"adopted,omitempty"`
	// End is when it ended; nil before.
	End *metav1.Time `json:"end,omitempty"`
}

// Wanted is what an operation upgrades, or brings back.
type Wanted struct {
	// Component is its key in the spec of a GcuResource or the name of its DaemonSet; ""
	// means everything outdated.
	Component string `json:"component,omitempty"`
	// Latest upgrades to the newest revision at the time the operator receives the requests,
	// not at the time of the call.
	Latest bool `json:"latest,omitempty"`
	// Rollback restores the previous revision (docs/adr/0021); without a component, of what the last
	// operation upgraded.
	Rollback bool `json:"rollback,omitempty"`
}

// Part is one pod in an operation.
type Part struct {
	Component string               `json:"component"`
	DaemonSet topsv1.NamespacedRef `json:"daemonSet"`
	Pod       topsv1.NamespacedRef `json:"pod"`
	Revision  string               `json:"revision"`
	// Request is the id of its request; "" before there is one.
	Request string `json:"request,omitempty"`
	// OtherRequest: the request is of another operation, and is to be withdrawn along with a rollback that goes on.
	OtherRequest bool   `json:"beside,omitempty"`
	State        State  `json:"state"`
	Reason       string `json:"reason,omitempty"`
	Message      string `json:"message,omitempty"`
}

// OperationIDPattern is the shape of the ids of operations.
var OperationIDPattern = regexp.MustCompile(`^op-[0-9a-f]{16}$`)

// OperationID derives an id from the idempotency key, so that a repeated call is the same
// operation even if the journal is lost; without a key, the id is unique.
func OperationID(nodeName, key string, sequence uint64, now time.Time) string {
	seed := "key\n" + nodeName + "\n" + key
	if key == "" {
		seed = fmt.Sprintf("new\n%s\n%d\n%d", nodeName, sequence, now.UnixNano())
	}
	sum := sha256.Sum256([]byte(seed))
	return "op-" + hex.EncodeToString(sum[:8])
}

// Follow updates the parts of an operation from the tasks that answer their requests, and
// ends it when all are final. The input is not changed.
func (o Operation) Follow(tasks []topsv1.UpgradeTask, now metav1.Time) Operation {
	if o.Queued || o.End != nil {
		return o
	}
	o.Parts = slices.Clone(o.Parts)
	open := false
	for i := range o.Parts {
		p := &o.Parts[i]
		if !p.State.Final() {
			p.follow(tasks, o.Wanted.Rollback && !o.Withdrawn) // one that was sent is not withdrawn
		}
		open = open || !p.State.Final()
	}
	if !open {
		o.End = &now
	}
	return o
}

// follow takes over the state of the task that answers a part. An operator of an earlier version takes a rollback
// request for an upgrade to the newest revision, and answers that the pod is there.
func (p *Part) follow(tasks []topsv1.UpgradeTask, rollback bool) {
	i := slices.IndexFunc(tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == p.Request })
	if i < 0 {
		p.State, p.Reason, p.Message = Waiting, "", "the operator has not answered yet"
		return
	}
	p.State, p.Reason, p.Message = State(tasks[i].State), tasks[i].Reason, tasks[i].Message
	if p.OtherRequest && p.State == Failed && p.Reason == topsv1.ReasonUndone { // the rollback came first, so it upgraded nothing
		p.State = Withdrawn
	}
	if p.OtherRequest && p.State == Done {
		p.State, p.Message = Failed, "it was withdrawn too late (the operator's answer: "+p.Message+")"
	} else if rollback && p.State == Done && p.Reason != topsv1.ReasonUndone {
		p.State, p.Message = Failed, "the operator cannot roll back a single node: upgrade it (its answer: "+p.Message+")"
	}
}

// State derives the state of an operation from its parts: the most advanced state of
// unfinished parts, else the worst outcome. That a request beside a rollback was withdrawn is none.
func (o Operation) State() State {
	if o.Queued {
		return Queued
	}
	seen := map[State]bool{}
	for _, p := range o.Parts {
		seen[p.State] = seen[p.State] || !p.OtherRequest || p.State != Withdrawn
	}
	order := []State{Running, Waiting, Queued, Failed, Dropped, Withdrawn}
	for _, s := range order {
		if seen[s] {
			return s
		}
	}
	return Done
}

// FollowAll returns the updated operations of which at least one part has ended: by its task, or because its request is lost.
func FollowAll(operations []Operation, requests []Request, tasks []topsv1.UpgradeTask, now metav1.Time) []Operation {
	var changed []Operation
	for _, o := range operations {
		next := o.withoutLost(requests, tasks).Follow(tasks, now)
		if !o.Queued && o.End == nil && (next.End != nil || o.finals() != next.finals()) {
			changed = append(changed, next)
		}
	}
	return changed
}

// withoutLost fails the parts of an operation that was sent whose requests are lost: those that have no task, and that no
// agent submits any more, will never be answered. The input is not changed.
func (o Operation) withoutLost(requests []Request, tasks []topsv1.UpgradeTask) Operation {
	if o.Queued {
		return o
	}
	o.Parts = slices.Clone(o.Parts)
	for i := range o.Parts {
		p := &o.Parts[i]
		answered := slices.ContainsFunc(tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == p.Request })
		if !p.State.Final() && !answered && indexOf(requests, p.Request) < 0 {
			p.State, p.Reason, p.Message = Failed, string(ReasonRequestLost), "its request was lost on this node and in the cluster, and its outcome is unknown: check the running pods and retry"
		}
	}
	return o
}

// finals counts the parts that have ended.
func (o Operation) finals() int {
	n := 0
	for _, p := range o.Parts {
		if p.State.Final() {
			n++
		}
	}
	return n
}

// Unfinished returns the index of the operation that has not ended, -1 for none.
func Unfinished(operations []Operation) int {
	return slices.IndexFunc(operations, func(o Operation) bool { return o.End == nil })
}

// Superseded returns the ids of the oldest finished operations beyond KeptOperations.
func Superseded(operations []Operation) []string {
	var ids []string
	for i := range operations {
		if len(operations)-len(ids) > KeptOperations && operations[i].End != nil {
			ids = append(ids, operations[i].ID)
		}
	}
	return ids
}

// AdoptOperations adds the operations that requests name and that are missing in
// operations, because the journal was lost. The input is not changed.
func AdoptOperations(operations []Operation, submitted []topsv1.UpgradeRequest) []Operation {
	adopted := slices.Clone(operations)
	for _, request := range submitted {
		if !OperationIDPattern.MatchString(request.Operation) || !IDPattern.MatchString(request.ID) {
			continue
		}
		i := slices.IndexFunc(adopted, func(o Operation) bool { return o.ID == request.Operation })
		if i < 0 {
			adopted = append(adopted, Operation{Sequence: nextOperation(adopted), ID: request.Operation, Wanted: Wanted{Rollback: request.Rollback}, Accepted: request.RequestTime, Adopted: true})
			i = len(adopted) - 1
		}
		known := slices.ContainsFunc(adopted[i].Parts, func(p Part) bool { return p.Request == request.ID })
		if !known && !slices.ContainsFunc(operations, func(o Operation) bool { return o.ID == request.Operation }) {
			adopted[i].Parts = append(adopted[i].Parts, partOf(request))
			adopted[i].Withdrawn = adopted[i].Withdrawn || request.Withdrawn
		}
	}
	return adopted
}

// partOf returns the part that belongs to a request.
func partOf(request topsv1.UpgradeRequest) Part {
	return Part{
		Component: request.DaemonSet.Name, DaemonSet: request.DaemonSet, Pod: request.Pod, Revision: request.Revision,
		Request: request.ID, State: Waiting,
	}
}

func nextOperation(operations []Operation) uint64 {
	var last uint64
	for i := range operations {
		last = max(last, operations[i].Sequence)
	}
	return last + 1
}
