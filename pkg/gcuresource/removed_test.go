package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// witness is a recorder that notes, with each event, whether a DaemonSet exists.
type witness struct {
	api   client.Reader
	of    client.ObjectKey
	heard []string
}

func (w *witness) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	state := "gone"
	if ds := (&appsv1.DaemonSet{}); w.api.Get(context.Background(), w.of, ds) == nil && ds.DeletionTimestamp == nil {
		state = "there"
	}
	w.heard = append(w.heard, kind+" "+reason+", "+state+": "+fmt.Sprintf(note, args...))
}

// Without a strategy, a DaemonSet that the spec no longer asks for takes its pods with it on all nodes.
// An event says so while it is still there, once, and only then. With a strategy its pods leave node
// by node, after what takes over from it exists; it goes with the last of them.
func TestADaemonSetThatIsNotAskedForAnyMore(t *testing.T) {
	const atOnce, slowly = "Warning RemovedAtOnce", "Normal RemovedNodeByNode"
	tests := []struct {
		name     string
		strategy string
		edit     func(*topsv1.GcuResource)
		want     []string
	}{
		{"removed", "", func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }, []string{atOnce}},
		{"renamed", "", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Name = "metrics" }, []string{atOnce}},
		{"moved", "", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Namespace = "enflame" }, []string{atOnce}},
		{"upgraded", "", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Version = "v2" }, nil},
		{"a Deployment removed", "", func(gr *topsv1.GcuResource) { gr.Spec.Volcano = nil }, nil},
		{"removed with a strategy", "AdvancedRollingUpdate", func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }, []string{slowly}},
		{"renamed with a strategy", "AdvancedRollingUpdate", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Name = "metrics" }, []string{slowly}},
		{"moved under OTA", "OTA", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Namespace = "enflame" }, []string{slowly}},
		{"removed with wrong settings", "Sometimes", func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }, []string{slowly}},
		{"a Deployment removed with a strategy", "OTA", func(gr *topsv1.GcuResource) { gr.Spec.Volcano = nil }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := inMemory(t)
			edit := func(s *scene) error {
				return s.edit(func(gr *topsv1.GcuResource) {
					delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
					if tt.strategy != "" {
						gr.Annotations[topsv1.AnnotationUpdateStrategy] = tt.strategy
					}
					tt.edit(gr)
				})
			}
			if err := (story{"", []func(*scene) error{deployAll, edit}}).play(s); err != nil {
				t.Fatal(err)
			}
			w := &witness{api: s.api, of: client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}}
			s.gcu.Recorder = w
			if err := s.goOn(nil); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range w.heard {
				if kind, of, found := strings.Cut(e, ", there: the spec no longer includes DaemonSet kube-system/enflame-gcu-exporter of component exporter"); found && of != "" {
					got = append(got, kind)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("announced %v, want %v; all events:\n%s", got, tt.want, strings.Join(w.heard, "\n"))
			}
			if there := s.api.Get(t.Context(), w.of, &appsv1.DaemonSet{}) == nil; there != (tt.want == nil) {
				t.Errorf("the DaemonSet is there: %t", there)
			}
		})
	}
}

// What may not leave is not announced, and keeps nothing else from leaving.
func TestADaemonSetThatMayNotLeaveIsNotAnnounced(t *testing.T) {
	s := inMemory(t)
	if err := (story{"", []func(*scene) error{deployAll, removeTwo}}).play(s); err != nil {
		t.Fatal(err)
	}
	plugin := client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-k8s-plugin"}
	w := &witness{api: s.api, of: plugin}
	s.gcu.Recorder = w
	refusesAll(errors.New("denied"), "apply DaemonSet enflame-gcu-exporter")(s.line)
	for range 2 {
		if err := s.turn(); err == nil || !strings.Contains(err.Error(), "denied") {
			t.Fatalf("the pass ends with %v", err)
		}
	}
	ds := &appsv1.DaemonSet{}
	if err := s.api.Get(t.Context(), plugin, ds); err != nil || !daemonset.IsLeaving(ds) {
		t.Errorf("the other one does not leave: %v", err)
	}
	s.line.before = nil
	if err := s.turn(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range w.heard {
		if _, of, found := strings.Cut(e, "RemovedNodeByNode, there: the spec no longer includes DaemonSet kube-system/"); found {
			got = append(got, strings.Fields(of)[0])
		}
	}
	if want := []string{"enflame-gcu-k8s-plugin", "enflame-gcu-exporter"}; !slices.Equal(got, want) {
		t.Errorf("announced %v, want %v", got, want)
	}
}

// The DaemonSet that leaves stays while a pod of it runs, an operation is at work, or its successor
// cannot be created.
func TestADaemonSetLeavesWhenItsSuccessorIsThere(t *testing.T) {
	ctx := t.Context()
	s := inMemory(t)
	foreign := &appsv1.DaemonSet{}
	foreign.Namespace, foreign.Name = "kube-system", "taken"
	rename := func(name string) func(*scene) error {
		return func(s *scene) error { return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Name = name }) }
	}
	block := func(s *scene) error { return s.api.Create(ctx, foreign) }
	if err := (story{"", []func(*scene) error{deployAll, block, rename("taken")}}).play(s); err != nil {
		t.Fatal(err)
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	old := &appsv1.DaemonSet{}
	name := client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}
	if err := s.api.Get(ctx, name, old); err != nil || daemonset.IsLeaving(old) {
		t.Fatalf("it leaves though its successor is not there: %v", err)
	}
	rollout := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: hero}}}
	rollout.Namespace, rollout.Name = "kube-system", hero
	if err := s.api.Create(ctx, rollout); err != nil {
		t.Fatal(err)
	}
	before := rollout.DeepCopy()
	rollout.Status.InFlightNodes = 1
	if err := errors.Join(s.api.Status().Patch(ctx, rollout, client.MergeFrom(before)), rename("metrics")(s), s.goOn(nil), s.api.Get(ctx, name, old)); err != nil || !daemonset.IsLeaving(old) {
		t.Fatalf("it is gone, or stays, though an operation is at work: %v", err)
	}
	successor := &appsv1.DaemonSet{}
	if err := s.api.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "metrics"}, successor); err != nil || !daemonset.AreRivals(old, successor) {
		t.Fatalf("the successor does not keep apart: %v", err)
	}
}

// meddler changes a DaemonSet right before it is deleted for the first time, like another manager that knows a newer
// spec, and keeps the answer to that deletion.
type meddler struct {
	client.Client
	t      *testing.T
	api    client.Client
	of     client.ObjectKey
	answer error
	asked  bool
}

func (m *meddler) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if m.asked || client.ObjectKeyFromObject(o) != m.of || o.GetObjectKind().GroupVersionKind().Kind != "DaemonSet" {
		return m.Client.Delete(ctx, o, opts...)
	}
	m.asked = true
	ds := &appsv1.DaemonSet{}
	if err := m.api.Get(ctx, m.of, ds); err != nil {
		m.t.Fatal(err)
	}
	before := ds.DeepCopy()
	ds.Annotations[topsv1.AnnotationRevision] = "another"
	if err := m.api.Patch(ctx, ds, client.MergeFrom(before)); err != nil {
		m.t.Fatal(err)
	}
	m.answer = m.Client.Delete(ctx, o, opts...)
	return m.answer
}

// Its pods would go on all nodes at once, although the spec includes it again.
func TestADaemonSetThatChangedMeanwhileIsNotDeleted(t *testing.T) {
	for _, strategy := range []string{"", "AdvancedRollingUpdate"} {
		t.Run(strategy, func(t *testing.T) {
			s := inMemory(t)
			remove := func(s *scene) error {
				return s.edit(func(gr *topsv1.GcuResource) {
					delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
					if strategy != "" {
						gr.Annotations[topsv1.AnnotationUpdateStrategy] = strategy
					}
					gr.Spec.Exporter = nil
				})
			}
			if err := (story{"", []func(*scene) error{deployAll, remove}}).play(s); err != nil {
				t.Fatal(err)
			}
			m := &meddler{Client: s.gcu.Client, t: t, api: s.api, of: client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}}
			s.gcu.Client = m
			if err := s.goOn(nil); err != nil {
				t.Fatal(err)
			}
			if !m.asked || !apierrors.IsConflict(m.answer) {
				t.Errorf("deletion asked for: %t, answered %v, want a conflict", m.asked, m.answer)
			}
			if err := s.api.Get(t.Context(), m.of, &appsv1.DaemonSet{}); !apierrors.IsNotFound(err) {
				t.Errorf("once it is read again, and still not included, it stays: %v", err)
			}
		})
	}
}

// finishes makes the rollout of the gr one that has finished at the newest templates of its DaemonSets.
func (s *scene) finishes(ctx context.Context, rollout *topsv1.DaemonRollout) error {
	var sets appsv1.DaemonSetList
	var revisions appsv1.ControllerRevisionList
	if err := errors.Join(s.api.List(ctx, &sets), s.api.List(ctx, &revisions)); err != nil {
		return err
	}
	before := rollout.DeepCopy()
	rollout.Status.Targets = nil
	for i := range sets.Items {
		ds := &sets.Items[i]
		if metav1.GetControllerOf(ds) == nil {
			continue // it has no owner
		}
		var its []*appsv1.ControllerRevision
		for j := range revisions.Items {
			if metav1.IsControlledBy(&revisions.Items[j], ds) {
				its = append(its, &revisions.Items[j])
			}
		}
		hash, err := daemonset.TargetRevision(ds, its)
		if err != nil {
			return err
		}
		rollout.Status.Targets = append(rollout.Status.Targets, topsv1.RevisionTarget{DaemonSet: ds.Namespace + "/" + ds.Name, Hash: hash})
	}
	return s.api.Status().Patch(ctx, rollout, client.MergeFrom(before))
}

// A tool that waits for a gr must not see a finished one before its rollout has seen what leaves; under OTA a person at a node decides.
func TestAGrIsNotFinishedBeforeItsRolloutSeesADaemonSetLeave(t *testing.T) {
	for strategy, want := range map[string]bool{"AdvancedRollingUpdate": true, "OTA": false} {
		t.Run(strategy, func(t *testing.T) {
			s := inMemory(t)
			annotate := func(s *scene) error {
				return s.edit(func(gr *topsv1.GcuResource) { gr.Annotations[topsv1.AnnotationUpdateStrategy] = strategy })
			}
			rollout := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: hero}}}
			rollout.Namespace, rollout.Name = "kube-system", hero
			if err := errors.Join((story{"", []func(*scene) error{deployAll, annotate}}).play(s), s.goOn(nil), s.api.Create(t.Context(), rollout), s.finishes(t.Context(), rollout)); err != nil {
				t.Fatal(err)
			}
			reconciling := func(when string, want bool) {
				t.Helper()
				var gr topsv1.GcuResource
				if err := errors.Join(s.turn(), s.rest.daemonSets(), s.api.Get(t.Context(), client.ObjectKey{Name: hero}, &gr)); err != nil {
					t.Fatal(err)
				}
				if got := slices.ContainsFunc(gr.Status.Conditions, func(c topsv1.ActionCondition) bool { return c.Type == topsv1.ConditionReconciling }); got != want || gr.Status.ObservedGeneration != gr.Generation {
					t.Errorf("%s: Reconciling %t, generation %d, observed %d: %+v", when, got, gr.Generation, gr.Status.ObservedGeneration, gr.Status.Conditions)
				}
			}
			s.rest.oneByOne, s.rest.upgrades = true, "none"
			reconciling("deployed", false)
			if err := s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				reconciling("removed", want)
			}
			if err := s.finishes(t.Context(), rollout); err != nil {
				t.Fatal(err)
			}
			reconciling("seen by the rollout, which has nothing to do", false)
		})
	}
}

// The rollout of all components waits for settings that agree, and the operator never removes an annotation of others.
func TestAnAnnotationOfADaemonSetThatLeavesIsNamed(t *testing.T) {
	s := inMemory(t)
	if err := (story{"", []func(*scene) error{deployAll}}).play(s); err != nil {
		t.Fatal(err)
	}
	s.rest.oneByOne, s.rest.upgrades = true, "none"
	remove := func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }
	if err := errors.Join(s.goOn(nil), s.edit(remove), s.turn(), s.turn()); err != nil {
		t.Fatal(err)
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "enflame-gcu-exporter"}}
	pause := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+topsv1.AnnotationPaused+`":"true"}}}`))
	if err := errors.Join(s.api.Patch(t.Context(), ds, pause), s.turn(), s.turn()); err != nil {
		t.Fatal(err)
	}
	gr, err := s.gr()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(gr.Status.Conditions, func(c topsv1.ActionCondition) bool { return c.Reason == daemonset.ReasonSettingsDisagree }) {
		t.Errorf("the gr does not name it: %+v", gr.Status.Conditions)
	}
}

// Only an API server knows that a node port is taken.
func TestAnExporterIsRenamedNodeByNode(t *testing.T) {
	s := newStage(t, "node-1")
	s.create("port", topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{}})
	s.play("enflame-gcu-exporter")
	s.reaches("port", "Running", "1/1")
	s.edit("port", func(gr *topsv1.GcuResource) {
		gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
		gr.Spec.Exporter.Name = "metrics"
	})
	s.until("deploying it beside the one that leaves", func() string {
		old, successor := &appsv1.DaemonSet{}, &appsv1.DaemonSet{}
		if err := errors.Join(s.get(old, "kube-system", "enflame-gcu-exporter"), s.get(successor, "kube-system", "metrics")); err != nil {
			return err.Error()
		}
		if !daemonset.IsLeaving(old) {
			return "the old one does not leave"
		}
		return ""
	})
}
