package cordon

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	lockOnly     = `{"metadata":{"resourceVersion":"7"}}`
	cordonPatch  = `{"metadata":{"annotations":{"topsops.enflame.com/cordoned-by":"op1"},"resourceVersion":"7"},"spec":{"unschedulable":true}}`
	releasePatch = `{"metadata":{"annotations":{"topsops.enflame.com/cordoned-by":null},"resourceVersion":"7"},"spec":{"unschedulable":null}}`
	unmarkPatch  = `{"metadata":{"annotations":{"topsops.enflame.com/cordoned-by":null},"resourceVersion":"7"}}`
)

// decided is a decision as sent to the API server.
type decided struct {
	Patch    string
	Cordoned bool
	Reason   Reason
}

func decidedBy(t *testing.T, c NodeChange) decided {
	t.Helper()
	data, err := c.Patch("7")
	if err != nil {
		t.Fatal(err)
	}
	if c.Needed() == (string(data) == lockOnly) {
		t.Errorf("Needed is %t for the patch %s", c.Needed(), data)
	}
	if c.Message == "" {
		t.Error("the decision has no message")
	}
	return decided{Patch: string(data), Cordoned: c.Cordoned, Reason: c.Reason}
}

func TestDecideCordon(t *testing.T) {
	for _, tc := range []struct {
		name string
		node NodeFacts
		op   string
		want decided
	}{
		{"cordons and marks in one patch", NodeFacts{}, "op1", decided{cordonPatch, true, ReasonCordoned}},
		{"respects the cordon of somebody else", NodeFacts{Unschedulable: true}, "op1", decided{lockOnly, true, ReasonForeignCordon}},
		{"does nothing when asked again", NodeFacts{Unschedulable: true, Mark: "op1"}, "op1", decided{lockOnly, true, ReasonAlreadyCordoned}},
		{"cordons again when somebody uncordoned the node", NodeFacts{Mark: "op1"}, "op1", decided{cordonPatch, true, ReasonCordonedAgain}},
		{"leaves it when somebody uncordoned the node and cordoned it again",
			NodeFacts{Unschedulable: true, Mark: "op1", SetByOther: true}, "op1", decided{lockOnly, true, ReasonForeignCordon}},
		{"does not take over the cordon of another operation", NodeFacts{Unschedulable: true, Mark: "op2"}, "op1", decided{lockOnly, true, ReasonCordonedByOther}},
		{"does not cordon under the mark of another operation", NodeFacts{Mark: "op2"}, "op1", decided{lockOnly, false, ReasonCordonedByOther}},
		{"cordons nothing without an operation", NodeFacts{}, "", decided{lockOnly, false, ReasonNoOperation}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decidedBy(t, DecideCordon(tc.node, tc.op))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecideUncordon(t *testing.T) {
	for _, tc := range []struct {
		name string
		node NodeFacts
		op   string
		want decided
	}{
		{"uncordons and removes the mark in one patch", NodeFacts{Unschedulable: true, Mark: "op1"}, "op1", decided{releasePatch, false, ReasonUncordoned}},
		{"does nothing when asked again", NodeFacts{}, "op1", decided{lockOnly, false, ReasonNotCordoned}},
		{"leaves the cordon of somebody else", NodeFacts{Unschedulable: true}, "op1", decided{lockOnly, true, ReasonForeignCordon}},
		{"removes only the mark when somebody uncordoned the node and cordoned it again",
			NodeFacts{Unschedulable: true, Mark: "op1", SetByOther: true}, "op1", decided{unmarkPatch, true, ReasonForeignCordon}},
		{"removes only the mark when somebody uncordoned the node", NodeFacts{Mark: "op1"}, "op1", decided{unmarkPatch, false, ReasonNotCordoned}},
		{"leaves the cordon of another operation", NodeFacts{Unschedulable: true, Mark: "op2"}, "op1", decided{lockOnly, true, ReasonCordonedByOther}},
		{"leaves the node alone without an operation", NodeFacts{Unschedulable: true}, "", decided{lockOnly, true, ReasonForeignCordon}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decidedBy(t, DecideUncordon(tc.node, tc.op))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFactsOfANode(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const sets, others = `{"f:spec":{"f:unschedulable":{}}}`, `{"f:spec":{"f:taints":{}},"f:metadata":{"f:labels":{}}}`
	for _, tc := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		{"set by us", []metav1.ManagedFieldsEntry{entry("kubelet", others), entry(topsv1.ManagedBy, sets)}, false},
		{"set by a person", []metav1.ManagedFieldsEntry{entry(topsv1.ManagedBy, others), entry("kubectl-cordon", sets)}, true},
		{"claimed by somebody else as well", []metav1.ManagedFieldsEntry{entry(topsv1.ManagedBy, sets), entry("argocd", sets)}, true},
		{"without a record", nil, false},
		{"with a record that cannot be read", []metav1.ManagedFieldsEntry{{Manager: "x"}, entry("y", `[]`)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "7",
				Annotations: map[string]string{topsv1.AnnotationCordonedBy: "op1"}, ManagedFields: tc.entries},
				Spec: corev1.NodeSpec{Unschedulable: true}}
			want := NodeFacts{Name: "n1", ResourceVersion: "7", Unschedulable: true, Mark: "op1", SetByOther: tc.want}
			if diff := cmp.Diff(want, FactsOf(node)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOrphansAreMarkedNodesWithoutALiveOperation(t *testing.T) {
	nodes := []NodeFacts{
		{Name: "c", Mark: "over", Unschedulable: true}, {Name: "b", Mark: "live", Unschedulable: true},
		{Name: "a", Mark: "over"}, {Name: "d", Unschedulable: true}, {Name: "e"},
	}
	want := []Orphan{{"a", "over"}, {"c", "over"}}
	if diff := cmp.Diff(want, Orphans(nodes, sets.New("live"))); diff != "" {
		t.Error(diff)
	}
}

// cordonWorld is one node with people who cordon and uncordon it, and successive operations
// that may die at any moment.
type cordonWorld struct {
	node NodeFacts
	// byUs is the truth hidden from programs: whether we made the node unschedulable.
	byUs bool
	// running is the operation that is not over, "" without one; count numbers them.
	running string
	count   int
}

func (w *cordonWorld) carryOut(t *rapid.T, c NodeChange) {
	if c.Unschedulable != nil {
		if !*c.Unschedulable && !w.byUs {
			t.Fatalf("the cordon of somebody else was removed: %s", c.Message)
		}
		w.node.Unschedulable, w.node.SetByOther, w.byUs = *c.Unschedulable, false, *c.Unschedulable
	}
	if c.Mark != nil {
		w.node.Mark = *c.Mark
	}
	if c.Cordoned != w.node.Unschedulable {
		t.Fatalf("Cordoned is %t, the node is unschedulable: %t", c.Cordoned, w.node.Unschedulable)
	}
}

// person acts like kubectl: nothing changes when the node is already as wanted.
func (w *cordonWorld) person(unschedulable bool) {
	if w.node.Unschedulable != unschedulable {
		w.node.Unschedulable, w.node.SetByOther, w.byUs = unschedulable, unschedulable, false
	}
}

func TestInEveryOrderACordonEndsWithItsOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &cordonWorld{}
		t.Repeat(map[string]func(*rapid.T){
			"a person cordons":   func(*rapid.T) { w.person(true) },
			"a person uncordons": func(*rapid.T) { w.person(false) },
			"an operation cordons": func(t *rapid.T) {
				if w.running == "" {
					w.count++
					w.running = fmt.Sprintf("op%d", w.count)
				}
				c := DecideCordon(w.node, w.running)
				w.carryOut(t, c)
				if again := DecideCordon(w.node, w.running); again.Needed() {
					t.Fatalf("asked again it writes again: %s", again.Message)
				}
				if !c.Cordoned && c.Reason != ReasonCordonedByOther {
					t.Fatalf("it leaves the node schedulable: %s", c.Message)
				}
			},
			"the operation dies and is over": func(*rapid.T) { w.running = "" },
			"the operation ends": func(t *rapid.T) {
				if w.running == "" {
					return
				}
				w.carryOut(t, DecideUncordon(w.node, w.running))
				if w.node.Mark == w.running {
					t.Fatal("its mark is left")
				}
				w.running = ""
			},
			"a sweep": func(t *rapid.T) {
				live := sets.New[string]()
				if w.running != "" {
					live.Insert(w.running)
				}
				for _, o := range Orphans([]NodeFacts{w.node}, live) {
					w.carryOut(t, DecideUncordon(w.node, o.Operation))
				}
				if w.running == "" && (w.byUs || w.node.Mark != "") {
					t.Fatalf("a cordon of ours is left without an operation: %+v", w.node)
				}
			},
			"": func(t *rapid.T) {
				if w.byUs && w.node.Mark == "" {
					t.Fatal("a cordon of ours has no mark")
				}
			},
		})
	})
}
