package ota

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// keptOperations is how many operations are kept, for people and for repeated keys.
const keptOperations = 20

// record is one operation in the journal.
type record struct {
	// Sequence orders the operations of this node: unique and rising.
	Sequence uint64      `json:"sequence"`
	ID       string      `json:"id"`
	Wish     wish        `json:"wish"`
	Accepted metav1.Time `json:"accepted"`
	// Queued: the operator was not told yet.
	Queued bool `json:"queued,omitempty"`
	// Withdrawn: what of it has not started is taken back.
	Withdrawn bool   `json:"withdrawn,omitempty"`
	Parts     []part `json:"parts,omitempty"`
	// End is when it ended; nil before.
	End *metav1.Time `json:"end,omitempty"`
}

// part is one pod in an operation.
type part struct {
	Component string               `json:"component"`
	DaemonSet topsv1.NamespacedRef `json:"daemonSet"`
	Pod       topsv1.NamespacedRef `json:"pod"`
	Revision  string               `json:"revision"`
	// Request that asks for it; "" before it is made.
	Request string         `json:"request,omitempty"`
	State   OperationState `json:"state"`
	Reason  string         `json:"reason,omitempty"`
	Message string         `json:"message,omitempty"`
}

// operationIDPattern is the shape of the ids of operations.
var operationIDPattern = regexp.MustCompile(`^op-[0-9a-f]{16}$`)

// operationID derives an id: from an idempotency key, so that a repeated one is the
// same operation even if the journal is lost; else from what no other one has.
func operationID(nodeName, key string, sequence uint64, now time.Time) string {
	seed := "key\n" + nodeName + "\n" + key
	if key == "" {
		seed = fmt.Sprintf("new\n%s\n%d\n%d", nodeName, sequence, now.UnixNano())
	}
	sum := sha256.Sum256([]byte(seed))
	return "op-" + hex.EncodeToString(sum[:8])
}

// follow brings the parts of an operation up to date with the tasks that answer their
// requests, and ends it when all are final. The input is not changed.
func (r record) follow(tasks []topsv1.UpgradeTask, now metav1.Time) record {
	if r.Queued || r.End != nil {
		return r
	}
	r.Parts = slices.Clone(r.Parts)
	open := false
	for i := range r.Parts {
		p := &r.Parts[i]
		if !p.State.Final() {
			p.follow(tasks)
		}
		open = open || !p.State.Final()
	}
	if !open {
		r.End = &now
	}
	return r
}

func (p *part) follow(tasks []topsv1.UpgradeTask) {
	i := slices.IndexFunc(tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == p.Request })
	if i < 0 {
		p.State, p.Reason, p.Message = Waiting, "", "the operator has not answered yet"
		return
	}
	p.State, p.Reason, p.Message = OperationState(tasks[i].State), tasks[i].Reason, tasks[i].Message
}

// state of an operation follows from its parts: the worst end, or the furthest of
// what has not ended.
func (r record) state() OperationState {
	if r.Queued {
		return Queued
	}
	seen := map[OperationState]bool{}
	for _, p := range r.Parts {
		seen[p.State] = true
	}
	order := []OperationState{Running, Waiting, Queued, Failed, Dropped, Withdrawn}
	for _, s := range order {
		if seen[s] {
			return s
		}
	}
	return Done
}

// answer words an operation; nodeUpgrade is what was last seen of the node's, nil for
// nothing.
func (r record) answer(nodeUpgrade *topsv1.NodeUpgrade) Operation {
	o := Operation{
		ID: r.ID, Component: r.Wish.Component, State: r.state(), AcceptedTime: r.Accepted, EndTime: r.End, Requests: []Part{},
		Progress: Progress{Total: len(r.Parts)},
	}
	for _, p := range r.Parts {
		o.Requests = append(o.Requests, Part{
			Component: p.Component, Namespace: p.Pod.Namespace, Pod: p.Pod.Name, Revision: p.Revision,
			State: p.State, Reason: p.Reason, Message: p.Message,
		})
		if p.State.Final() {
			o.Progress.Done++
		}
	}
	o.Message = r.message()
	switch {
	case r.Queued:
		o.Offline = offlineQueued
	case !o.State.Final():
		r.addJob(&o, nodeUpgrade)
	}
	return o
}

// message says what a person most wants to know.
func (r record) message() string {
	state := r.state()
	if r.Queued {
		return "kept on this node until the API server can be used"
	}
	if len(r.Parts) == 0 {
		return "nothing on this node is outdated"
	}
	if r.Withdrawn && state == Waiting {
		return "taken back; the operator has not confirmed yet that nothing was started"
	}
	if state == Done {
		return message.Count(len(r.Parts), "component") + " at the newest revision"
	}
	for _, p := range r.Parts {
		if p.State == state && p.Message != "" {
			return p.Component + ": " + p.Message
		} else if p.State == state {
			return p.Component
		}
	}
	return ""
}

// addJob adds what the job on the node is at, when it is one for this operation.
func (r record) addJob(o *Operation, nodeUpgrade *topsv1.NodeUpgrade) {
	if nodeUpgrade == nil || nodeUpgrade.Spec.Operation == nil || nodeUpgrade.Status.Operation == nil {
		return
	}
	asked, job := nodeUpgrade.Spec.Operation, nodeUpgrade.Status.Operation
	ours := slices.ContainsFunc(asked.Targets, func(t topsv1.OperationTarget) bool {
		return slices.ContainsFunc(r.Parts, func(p part) bool { return p.DaemonSet.UID == t.DaemonSet.UID && !p.State.Final() })
	})
	if asked.ID != job.ID || job.Phase.Final() || !ours {
		return
	}
	o.Task, o.Progress = job.Task, Progress{Total: len(job.Tasks)}
	for _, t := range job.Tasks {
		if t.State == topsv1.OperationTaskDone || t.State == topsv1.OperationTaskSkipped {
			o.Progress.Done++
		}
	}
	if job.Message != "" {
		o.Message = job.Message
	}
}

// running returns the index of the operation that has not ended, -1 for none.
func running(records []record) int {
	return slices.IndexFunc(records, func(r record) bool { return r.End == nil })
}

// lastOf returns the newest operation that a DaemonSet was part of.
func lastOf(records []record, daemonSet topsv1.NamespacedRef) *LastOperation {
	for _, r := range slices.Backward(records) {
		for _, p := range r.Parts {
			if p.DaemonSet.UID == daemonSet.UID {
				return &LastOperation{ID: r.ID, State: p.State, Message: p.Message}
			}
		}
	}
	return nil
}

// superseded returns the ids of the oldest operations beyond those that are kept. One
// that has not ended is never among them.
func superseded(records []record) []string {
	var ids []string
	for i := range records {
		if len(records)-len(ids) > keptOperations && records[i].End != nil {
			ids = append(ids, records[i].ID)
		}
	}
	return ids
}

// adoptOperations adds the operations that requests name and that are not in records:
// the journal was lost. The input is not changed.
func adoptOperations(records []record, shown []topsv1.UpgradeRequest) []record {
	adopted := slices.Clone(records)
	for _, request := range shown {
		if !operationIDPattern.MatchString(request.Operation) || !requestIDPattern.MatchString(request.ID) {
			continue
		}
		i := slices.IndexFunc(adopted, func(r record) bool { return r.ID == request.Operation })
		if i < 0 {
			adopted = append(adopted, record{Sequence: nextOperation(adopted), ID: request.Operation, Accepted: request.RequestTime})
			i = len(adopted) - 1
		}
		known := slices.ContainsFunc(adopted[i].Parts, func(p part) bool { return p.Request == request.ID })
		if !known && !slices.ContainsFunc(records, func(r record) bool { return r.ID == request.Operation }) {
			adopted[i].Parts = append(adopted[i].Parts, partOf(request))
			adopted[i].Withdrawn = adopted[i].Withdrawn || request.Withdrawn
		}
	}
	return adopted
}

// partOf is what is known of a part from its request.
func partOf(request topsv1.UpgradeRequest) part {
	return part{
		Component: request.DaemonSet.Name, DaemonSet: request.DaemonSet, Pod: request.Pod, Revision: request.Revision,
		Request: request.ID, State: Waiting,
	}
}

// ended returns an operation of which nothing was done, with the same end for all parts.
func (r record) ended(state OperationState, reason, message string, now metav1.Time) record {
	r.Queued, r.End, r.Parts = false, &now, slices.Clone(r.Parts)
	if len(r.Parts) == 0 {
		r.Parts = []part{{Component: r.Wish.Component}}
	}
	for i := range r.Parts {
		r.Parts[i].State, r.Parts[i].Reason, r.Parts[i].Message = state, reason, message
	}
	return r
}

func nextOperation(records []record) uint64 {
	var last uint64
	for i := range records {
		last = max(last, records[i].Sequence)
	}
	return last + 1
}
