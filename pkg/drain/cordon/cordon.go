// Package cordon decides how a node is cordoned for an operation and released (design section
// 4).
//
// A cordon and its mark, the annotation topsops.enflame.com/cordoned-by with the id of the
// operation, are written and removed in one patch that fails when the node has changed since
// it was read. So every cordon of ours names its operation, and Sweep can find leftovers.
//
// The mark does not prove that the cordon is ours: a person may have uncordoned the node and
// cordoned it again. metadata.managedFields shows who last changed spec.unschedulable, so
// FactsOf looks there. Only kubectl cordon on a node that we cordoned goes unseen: it writes
// nothing.
//
//	unschedulable  mark   set by     Cordon              Uncordon
//	no             -                 cordon, mark        -
//	yes            -                 - (foreign)         - (foreign)
//	yes            ours   us         -                   uncordon, unmark
//	yes            ours   other      - (foreign)         unmark (foreign)
//	no             ours              cordon, mark        unmark
//	any            other operation   - (other)           - (other)
package cordon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// NodeFacts is the input of a decision about a cordon.
type NodeFacts struct {
	// Name of the node.
	Name string
	// ResourceVersion at which the facts were read.
	ResourceVersion string
	// Unschedulable is spec.unschedulable.
	Unschedulable bool
	// Mark is the operation id in the annotation AnnotationCordonedBy, "" when it is absent.
	Mark string
	// SetByOther reports whether another manager last changed, or claims, spec.unschedulable.
	// The mark alone does not show it: after a person uncordons and cordons the node, it
	// looks as we left it.
	SetByOther bool
}

// FactsOf reads the facts from a node. It needs metadata.managedFields, which the manager's
// cache leaves out: read the node past the cache. Without an entry for spec.unschedulable (a
// node from before Kubernetes 1.18, or cleared managedFields) the mark alone decides.
func FactsOf(node *corev1.Node) NodeFacts {
	return NodeFacts{
		Name: node.Name, ResourceVersion: node.ResourceVersion,
		Unschedulable: node.Spec.Unschedulable,
		Mark:          node.Annotations[topsv1.AnnotationCordonedBy],
		SetByOther:    slices.ContainsFunc(node.ManagedFields, otherSetsUnschedulable),
	}
}

func otherSetsUnschedulable(entry metav1.ManagedFieldsEntry) bool {
	if entry.Manager == topsv1.ManagedBy || entry.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false // written by the API server; an unreadable entry counts as none
	}
	_, sets := fields.Spec["f:unschedulable"]
	return sets
}

// Reason is why a node is cordoned, uncordoned or left alone, from a closed list.
type Reason string

const (
	// ReasonCordoned means that the node is cordoned and marked.
	ReasonCordoned Reason = "Cordoned"
	// ReasonCordonedAgain means that the node was uncordoned during the operation, and is cordoned
	// again.
	ReasonCordonedAgain Reason = "CordonedAgain"
	// ReasonAlreadyCordoned means that nothing changes, the operation has already cordoned the node.
	ReasonAlreadyCordoned Reason = "AlreadyCordoned"
	// ReasonForeignCordon means that the node stays cordoned, because someone else cordoned it.
	ReasonForeignCordon Reason = "ForeignCordon"
	// ReasonCordonedByOther means that nothing changes, another operation has cordoned the node. Either
	// that operation is over, and Sweep releases the node, or two operations are at work on
	// it.
	ReasonCordonedByOther Reason = "CordonedByOther"
	// ReasonUncordoned means that the node is uncordoned and the mark removed.
	ReasonUncordoned Reason = "Uncordoned"
	// ReasonNotCordoned means that the node was uncordoned by someone else, or never cordoned.
	ReasonNotCordoned Reason = "NotCordoned"
	// ReasonNoOperation means that nothing changes; without an operation id there is no mark, and a
	// cordon without a mark would stay forever.
	ReasonNoOperation Reason = "NoOperation"
)

// NodeChange is the change to a node: nothing, or one patch.
type NodeChange struct {
	// Unschedulable is the new spec.unschedulable; nil leaves it unchanged.
	Unschedulable *bool
	// Mark is the new mark, "" removes it; nil leaves it unchanged.
	Mark *string
	// Cordoned reports whether the node is unschedulable after this change.
	Cordoned bool
	// Reason for a program, Message for a person.
	Reason  Reason
	Message string
}

// Needed reports whether there is a change to write.
func (c NodeChange) Needed() bool { return c.Unschedulable != nil || c.Mark != nil }

// Patch returns the change as one JSON merge patch, which the API server rejects when the
// node is no longer at the resourceVersion of the facts.
func (c NodeChange) Patch(resourceVersion string) ([]byte, error) {
	metadata := map[string]any{"resourceVersion": resourceVersion}
	body := map[string]any{"metadata": metadata}
	if c.Mark != nil {
		var mark any // null removes it
		if *c.Mark != "" {
			mark = *c.Mark
		}
		metadata["annotations"] = map[string]any{topsv1.AnnotationCordonedBy: mark}
	}
	if c.Unschedulable != nil {
		var unschedulable any // null, as kubectl uncordon writes
		if *c.Unschedulable {
			unschedulable = true
		}
		body["spec"] = map[string]any{"unschedulable": unschedulable}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return data, nil
}

// DecideCordon returns how to cordon a node for an operation. A mark on the node shows which operation has to uncordon it; a cordon
// without the mark belongs to someone else, and is never removed (design section 4, invariants S3, S4). The node may be worked on when the result is Cordoned and its reason is not
// ReasonCordonedByOther. It is idempotent.
func DecideCordon(n NodeFacts, operation string) NodeChange {
	yes := true
	switch {
	case operation == "":
		return NodeChange{Cordoned: n.Unschedulable, Reason: ReasonNoOperation, Message: "an operation needs an id to cordon a node"}
	case n.Mark != "" && n.Mark != operation:
		return cordonedByOther(n)
	case n.Unschedulable && (n.Mark == "" || n.SetByOther):
		return NodeChange{Cordoned: true, Reason: ReasonForeignCordon,
			Message: "the node was cordoned by someone else: it stays cordoned afterwards"}
	case n.Unschedulable:
		return NodeChange{Cordoned: true, Reason: ReasonAlreadyCordoned, Message: "the node is cordoned for this operation"}
	case n.Mark == operation:
		return NodeChange{Unschedulable: &yes, Mark: &operation, Cordoned: true, Reason: ReasonCordonedAgain,
			Message: "the node was uncordoned during the operation: cordoning it again"}
	}
	return NodeChange{Unschedulable: &yes, Mark: &operation, Cordoned: true, Reason: ReasonCordoned,
		Message: "the node is cordoned for this operation"}
}

// DecideUncordon returns how to undo what DecideCordon did for an operation, and nothing else: the cordon of an administrator or of another
// operation stays (design section 4, invariants S3, S4). It is idempotent.
func DecideUncordon(n NodeFacts, operation string) NodeChange {
	no, none := false, ""
	switch {
	case n.Mark == "" && n.Unschedulable:
		return NodeChange{Cordoned: true, Reason: ReasonForeignCordon,
			Message: "the node was cordoned by someone else: it stays cordoned"}
	case n.Mark == "":
		return NodeChange{Reason: ReasonNotCordoned, Message: "the node is not cordoned"}
	case n.Mark != operation:
		return cordonedByOther(n)
	case !n.Unschedulable:
		return NodeChange{Mark: &none, Reason: ReasonNotCordoned,
			Message: "the node was uncordoned during the operation"}
	case n.SetByOther:
		return NodeChange{Mark: &none, Cordoned: true, Reason: ReasonForeignCordon,
			Message: "the node was cordoned again during the operation: it stays cordoned"}
	}
	return NodeChange{Unschedulable: &no, Mark: &none, Reason: ReasonUncordoned, Message: "the node is uncordoned"}
}

func cordonedByOther(n NodeFacts) NodeChange {
	return NodeChange{Cordoned: n.Unschedulable, Reason: ReasonCordonedByOther,
		Message: fmt.Sprintf("operation %s has cordoned the node", n.Mark)}
}

// Orphan is a node with the mark of an operation that is over.
type Orphan struct {
	Node, Operation string
}

// Orphans returns the marked nodes whose operation is not in live, sorted by name. live must
// be read after the nodes: an operation is stored before its mark is, so a marked operation
// missing from live is over.
func Orphans(nodes []NodeFacts, live sets.Set[string]) []Orphan {
	var found []Orphan
	for _, n := range nodes {
		if n.Mark != "" && !live.Has(n.Mark) {
			found = append(found, Orphan{Node: n.Name, Operation: n.Mark})
		}
	}
	slices.SortFunc(found, func(a, b Orphan) int { return cmp.Compare(a.Node, b.Node) })
	return found
}
