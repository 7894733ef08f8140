// Package cordon decides how a node is cordoned for an operation and given back
// (design section 4).
//
// A cordon and its mark, the annotation topsops.enflame.com/cordoned-by with the
// id of the operation, are written and removed in one patch that fails when the
// node changed since it was read. So there is no moment at which a node is
// cordoned by us without saying for whom, and Sweep can tell what is left over.
//
// The mark does not prove that the cordon is ours: a person may have uncordoned
// the node and cordoned it again. Who last changed spec.unschedulable is in
// metadata.managedFields, so FactsOf looks there. What cannot be seen is a person
// who runs kubectl cordon on a node that we cordoned: kubectl writes nothing.
//
//	unschedulable  mark   set by     Cordon              Uncordon
//	no             -                 cordon, mark        -
//	yes            -                 - (foreign)         - (foreign)
//	yes            ours   us         -                   uncordon, unmark
//	yes            ours   other      - (foreign)         unmark (foreign)
//	no             ours              cordon, mark        unmark
//	any            other operation   - (held)            - (held)
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

// NodeFacts are what a decision about a cordon looks at.
type NodeFacts struct {
	// Name of the node.
	Name string
	// ResourceVersion at which the facts were read.
	ResourceVersion string
	// Unschedulable is spec.unschedulable.
	Unschedulable bool
	// Mark is the operation id in the annotation AnnotationCordonedBy, "" without one.
	Mark string
	// SetByOther tells that spec.unschedulable was last changed, or is claimed, by
	// somebody else. The mark alone cannot tell: when a person uncordons the node
	// and cordons it again, the node looks as we left it.
	SetByOther bool
}

// FactsOf reads the facts from a node. Who set spec.unschedulable is in
// metadata.managedFields, which the manager's cache leaves out: the node must
// have been read past it. Where nobody is recorded, on a node from before
// Kubernetes 1.18 or one whose record was cleared, the mark alone decides.
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
		return false // the API server writes them; an unreadable record is none
	}
	_, sets := fields.Spec["f:unschedulable"]
	return sets
}

// Reason is why a cordon or an uncordon does what it does, from a closed list.
type Reason string

const (
	// ReasonCordoned cordons the node and marks it.
	ReasonCordoned Reason = "Cordoned"
	// ReasonCordonedAgain cordons a node that somebody uncordoned during the operation.
	ReasonCordonedAgain Reason = "CordonedAgain"
	// ReasonAlreadyCordoned changes nothing: the operation cordoned the node before.
	ReasonAlreadyCordoned Reason = "AlreadyCordoned"
	// ReasonForeignCordon leaves the node cordoned: it was not we who cordoned it.
	ReasonForeignCordon Reason = "ForeignCordon"
	// ReasonHeldByOther changes nothing: another operation cordoned the node. It is
	// over, and Sweep releases the node, or it is not, and two are at work on it.
	ReasonHeldByOther Reason = "HeldByOther"
	// ReasonUncordoned uncordons the node and removes the mark.
	ReasonUncordoned Reason = "Uncordoned"
	// ReasonNotCordoned is a node that somebody uncordoned, or nobody cordoned.
	ReasonNotCordoned Reason = "NotCordoned"
	// ReasonNoOperation changes nothing: without an operation there is no mark, and
	// a cordon without one would stay for good.
	ReasonNoOperation Reason = "NoOperation"
)

// NodeChange is what a decision does to a node: nothing, or one patch.
type NodeChange struct {
	// Unschedulable is the new spec.unschedulable; nil leaves it alone.
	Unschedulable *bool
	// Mark is the new mark, "" removes it; nil leaves it alone.
	Mark *string
	// Cordoned reports whether the node is unschedulable once this is carried out.
	Cordoned bool
	// Reason for a program, Message for a person.
	Reason  Reason
	Message string
}

// Needed reports whether there is anything to write.
func (c NodeChange) Needed() bool { return c.Unschedulable != nil || c.Mark != nil }

// Patch is the change as one JSON merge patch, which the API server refuses when
// the node is no more at the resourceVersion of the facts.
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
		var unschedulable any // null is how it was, and what kubectl uncordon writes
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

// DecideCordon says how to cordon a node for an operation (design section 4,
// invariants S3, S4). The node may be worked on when the answer is Cordoned and
// its reason is not ReasonHeldByOther. To ask again changes nothing.
func DecideCordon(n NodeFacts, operation string) NodeChange {
	yes := true
	switch {
	case operation == "":
		return NodeChange{Cordoned: n.Unschedulable, Reason: ReasonNoOperation, Message: "an operation needs an id to cordon a node"}
	case n.Mark != "" && n.Mark != operation:
		return heldByOther(n)
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

// DecideUncordon says how to take back what DecideCordon did for an operation,
// and nothing else (design section 4, invariants S3, S4). To ask again changes
// nothing.
func DecideUncordon(n NodeFacts, operation string) NodeChange {
	no, none := false, ""
	switch {
	case n.Mark == "" && n.Unschedulable:
		return NodeChange{Cordoned: true, Reason: ReasonForeignCordon,
			Message: "the node was cordoned by someone else: it stays cordoned"}
	case n.Mark == "":
		return NodeChange{Reason: ReasonNotCordoned, Message: "the node is not cordoned"}
	case n.Mark != operation:
		return heldByOther(n)
	case !n.Unschedulable:
		return NodeChange{Mark: &none, Reason: ReasonNotCordoned,
			Message: "the node was uncordoned during the operation"}
	case n.SetByOther:
		return NodeChange{Mark: &none, Cordoned: true, Reason: ReasonForeignCordon,
			Message: "the node was cordoned again during the operation: it stays cordoned"}
	}
	return NodeChange{Unschedulable: &no, Mark: &none, Reason: ReasonUncordoned, Message: "the node is uncordoned"}
}

func heldByOther(n NodeFacts) NodeChange {
	return NodeChange{Cordoned: n.Unschedulable, Reason: ReasonHeldByOther,
		Message: fmt.Sprintf("operation %s has cordoned the node", n.Mark)}
}

// Orphan is a node with the mark of an operation that is over.
type Orphan struct {
	Node, Operation string
}

// Orphans returns the marked nodes whose operation is not in live, sorted by
// name. live must have been read after the nodes: an operation is stored before
// its mark is, so an operation whose mark was seen and that is not in live is
// over.
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
