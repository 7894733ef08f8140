package drain

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

func (s *stage) cordoner() Cordoner { return Cordoner{Client: s.manager, Live: s.manager} }

// person acts like kubectl cordon and uncordon.
func (s *stage) person(node string, unschedulable bool) {
	s.t.Helper()
	patch := `{"spec":{"unschedulable":null}}`
	if unschedulable {
		patch = `{"spec":{"unschedulable":true}}`
	}
	s.must(s.admin.Patch(s.t.Context(), s.readNode(node), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("kubectl-cordon")))
}

type cordonState struct {
	Unschedulable bool
	Mark          string
}

func (s *stage) cordonOf(node string) cordonState {
	s.t.Helper()
	n := s.readNode(node)
	return cordonState{n.Spec.Unschedulable, n.Annotations[topsv1.AnnotationCordonedBy]}
}

func TestCarryOutChangesTheNodeAsItWasRead(t *testing.T) {
	s := newStage(t)
	before := cordon.FactsOf(s.node("n1"))
	change := cordon.DecideCordon(before, "op1")
	s.person("n1", true)
	s.person("n1", false)
	if err := s.cordoner().CarryOut(t.Context(), "n1", before.ResourceVersion, "op1", change); !apierrors.IsConflict(err) {
		t.Errorf("on a node that changed since: %v", err)
	}
	s.must(s.cordoner().CarryOut(t.Context(), "n1", s.readNode("n1").ResourceVersion, "op1", change))
	if got := s.cordonOf("n1"); got != (cordonState{true, "op1"}) {
		t.Errorf("on the node as it is: %+v", got)
	}
}

// Cordon decides and writes like an operation, which does the two in different places.
func (c Cordoner) Cordon(ctx context.Context, node, operation string) (cordon.NodeChange, error) {
	facts, err := c.read(ctx, node)
	if err != nil {
		return cordon.NodeChange{}, err
	}
	return c.carryOut(ctx, facts, operation, cordon.DecideCordon(facts, operation))
}

func TestACordonEndsWithItsOwner(t *testing.T) {
	const on, off = true, false
	cordons := func(s *stage, op string) func(string) {
		return func(node string) {
			_, err := s.cordoner().Cordon(s.t.Context(), node, op)
			s.must(err)
		}
	}
	person := func(s *stage, unschedulable bool) func(string) {
		return func(node string) { s.person(node, unschedulable) }
	}
	for _, tc := range []struct {
		name  string
		steps func(s *stage) []func(node string)
		held  cordonState // before the uncordon
		want  cordonState
	}{
		{"we did: it is uncordoned", func(s *stage) []func(string) { return []func(string){cordons(s, "op1"), cordons(s, "op1")} },
			cordonState{true, "op1"}, cordonState{}},
		{"a person did before us: it stays", func(s *stage) []func(string) { return []func(string){person(s, on), cordons(s, "op1")} },
			cordonState{true, ""}, cordonState{true, ""}},
		{"a person wanted it too: kubectl wrote nothing, it is uncordoned",
			func(s *stage) []func(string) { return []func(string){cordons(s, "op1"), person(s, on)} }, cordonState{true, "op1"}, cordonState{}},
		{"a person uncordoned it and cordoned it again: it stays",
			func(s *stage) []func(string) {
				return []func(string){cordons(s, "op1"), person(s, off), person(s, on), cordons(s, "op1")}
			}, cordonState{true, "op1"}, cordonState{true, ""}},
		{"a person uncordoned it, we cordoned it again: it is uncordoned",
			func(s *stage) []func(string) {
				return []func(string){cordons(s, "op1"), person(s, off), cordons(s, "op1")}
			}, cordonState{true, "op1"}, cordonState{}},
		{"a person had cordoned it, uncordoned it, and we cordoned it: it is uncordoned",
			func(s *stage) []func(string) {
				return []func(string){person(s, on), cordons(s, "op1"), person(s, off), cordons(s, "op1")}
			}, cordonState{true, "op1"}, cordonState{}},
		{"another operation did: it stays with it", func(s *stage) []func(string) { return []func(string){cordons(s, "op2"), cordons(s, "op1")} },
			cordonState{true, "op2"}, cordonState{true, "op2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t)
			before := s.node("n1")
			for _, step := range tc.steps(s) {
				step("n1")
			}
			if diff := cmp.Diff(tc.held, s.cordonOf("n1")); diff != "" {
				t.Errorf("held: %s", diff)
			}
			for range 2 { // idempotent
				_, err := s.cordoner().Uncordon(t.Context(), "n1", "op1")
				s.must(err)
				if diff := cmp.Diff(tc.want, s.cordonOf("n1")); diff != "" {
					t.Errorf("in the end: %s", diff)
				}
			}
			if tc.want == (cordonState{}) {
				after := s.readNode("n1")
				if diff := cmp.Diff([]any{before.Spec, before.Annotations}, []any{after.Spec, after.Annotations}); diff != "" {
					t.Errorf("it is not as it was: %s", diff)
				}
			}
		})
	}
}

// afterRead is a reader with a hook after each read.
type afterRead struct {
	client.Reader
	happens func()
}

func (r afterRead) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	r.happens()
	return err
}

func TestANodeThatChangedMeanwhileIsNotPatched(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	late := Cordoner{Client: s.manager, Live: afterRead{s.manager, func() { s.person("n1", true) }}}
	if _, err := late.Cordon(t.Context(), "n1", "op1"); !apierrors.IsConflict(err) {
		t.Errorf("cordoning after a person did: %v, want a conflict", err)
	}
	if diff := cmp.Diff(cordonState{true, ""}, s.cordonOf("n1")); diff != "" {
		t.Error(diff)
	}
	s.person("n1", false)
	_, err := s.cordoner().Cordon(t.Context(), "n1", "op1")
	s.must(err)
	late.Live = afterRead{s.manager, func() { s.person("n1", false); s.person("n1", true) }}
	if _, err := late.Uncordon(t.Context(), "n1", "op1"); !apierrors.IsConflict(err) {
		t.Errorf("uncordoning after a person did it and took it back: %v, want a conflict", err)
	}
	if diff := cmp.Diff(cordonState{true, "op1"}, s.cordonOf("n1")); diff != "" {
		t.Error(diff)
	}
}

func TestANodeThatIsGoneNeedsNoUncordon(t *testing.T) {
	s := newStage(t)
	if _, err := s.cordoner().Uncordon(t.Context(), "gone", "op1"); err != nil {
		t.Error(err)
	}
	if _, err := s.cordoner().Cordon(t.Context(), "gone", "op1"); !apierrors.IsNotFound(err) {
		t.Errorf("cordoning it: %v, want not found", err)
	}
}

// beforeList is a client with a hook before each list.
type beforeList struct {
	client.Client
	happens func()
}

func (c beforeList) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.happens()
	return c.Client.List(ctx, list, opts...)
}

func TestSweepReleasesWhatDeadOperationsLeft(t *testing.T) {
	s := newStage(t)
	hold := func(node, op string) {
		_, err := s.cordoner().Cordon(t.Context(), node, op)
		s.must(err)
	}
	for _, name := range []string{"dead", "retaken", "uncordoned", "live", "foreign", "late", "plain"} {
		s.node(name)
	}
	operations := sets.New("op-live")
	hold("dead", "op-dead")
	hold("retaken", "op-dead")
	s.person("retaken", false)
	s.person("retaken", true)
	hold("uncordoned", "op-dead")
	s.person("uncordoned", false)
	hold("live", "op-live")
	s.person("foreign", true)
	// An operation begins during the sweep.
	sweeper := Cordoner{Live: s.manager, Client: beforeList{s.manager, func() {
		operations.Insert("op-late")
		hold("late", "op-late")
	}}}
	stored := func(context.Context) (sets.Set[string], error) { return operations.Clone(), nil }

	released, err := sweeper.Sweep(t.Context(), stored)
	s.must(err)
	if diff := cmp.Diff([]cordon.Orphan{{Node: "dead", Operation: "op-dead"}, {Node: "retaken", Operation: "op-dead"}, {Node: "uncordoned", Operation: "op-dead"}}, released); diff != "" {
		t.Errorf("released: %s", diff)
	}
	want := map[string]cordonState{"dead": {}, "retaken": {true, ""}, "uncordoned": {}, "live": {true, "op-live"},
		"foreign": {true, ""}, "late": {true, "op-late"}, "plain": {}}
	got := map[string]cordonState{}
	var nodes corev1.NodeList
	s.must(s.admin.List(t.Context(), &nodes))
	for _, n := range nodes.Items {
		got[n.Name] = s.cordonOf(n.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again, err := sweeper.Sweep(t.Context(), stored); err != nil || len(again) > 0 {
		t.Errorf("another sweep releases %v, %v", again, err)
	}
}
