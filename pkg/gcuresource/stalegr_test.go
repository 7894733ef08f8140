package gcuresource

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestAStatusThatTheCacheDoesNotShowYetIsStillReplaced has a Deployment that fails and recovers
// before the cache shows the status in between: no event of a gr's status begins another pass.
func TestAStatusThatTheCacheDoesNotShowYetIsStillReplaced(t *testing.T) {
	s := inMemory(t)
	if err := stories[0].play(s); err != nil {
		t.Fatal(err)
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	before := s.api.(*memoryAPI).copied()
	redis := &appsv1.Deployment{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(available int32) {
		t.Helper()
		must(s.api.Get(context.Background(), client.ObjectKey{Namespace: "enflame", Name: "redis"}, redis))
		was := redis.DeepCopy()
		redis.Status.AvailableReplicas = available
		must(s.api.Status().Patch(context.Background(), redis, client.MergeFrom(was)))
	}
	phase := func() string {
		t.Helper()
		gr := &topsv1.GcuResource{}
		must(s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr))
		return gr.Status.Phase
	}
	set(0)
	must(s.turn())
	if got := phase(); got == topsv1.PhaseRunning {
		t.Fatalf("without redis, the phase is %s", got)
	}
	set(1)
	behind := &lag{specMaker: specMaker{rand.New(rand.NewPCG(1, 1))}}
	behind.begin(s)
	behind.kinds[topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)] = before
	must(s.turn())
	if got := phase(); got != topsv1.PhaseRunning {
		t.Errorf("with redis, the phase is still %s", got)
	}
}

// TestAGrIsReadAnew has a component that is removed from the spec while the cache shows the gr as it was before the last write of its
// status: what is read past the cache is not mixed with that.
func TestAGrIsReadAnew(t *testing.T) {
	s := inMemory(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(stories[0].play(s))
	must(s.goOn(nil))
	before := s.api.(*memoryAPI).copied()
	redis := &appsv1.Deployment{}
	must(s.api.Get(t.Context(), client.ObjectKey{Namespace: "enflame", Name: "redis"}, redis))
	was := redis.DeepCopy()
	redis.Status.AvailableReplicas = 0
	must(s.api.Status().Patch(t.Context(), redis, client.MergeFrom(was)))
	must(s.turn()) // writes a status
	must(s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }))
	behind := &lag{specMaker: specMaker{rand.New(rand.NewPCG(1, 1))}}
	behind.begin(s)
	behind.kinds[topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)] = before
	must(s.turn())
	behind.end(s)
	must(s.goOn(nil))
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}, &appsv1.DaemonSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("looking for the DaemonSet of the removed component: %v, want that there is none", err)
	}
}

// TestNothingIsWrittenForAnOldGr has a new process whose cache shows the gr and its rollout as they were before the
// last change, which the process before has acted on.
func TestNothingIsWrittenForAnOldGr(t *testing.T) {
	withoutStrategy := func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) { delete(gr.Annotations, topsv1.AnnotationUpdateStrategy) })
	}
	withStrategy := func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) {
			metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
		})
	}
	removeComponent := func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil })
	}
	addComponent := func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.GFD = &topsv1.BaseFields{} })
	}
	settle := func(s *scene) error { return s.goOn(nil) }
	empty := func(s *scene) error {
		return s.api.Create(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: hero}})
	}
	addOther := func(s *scene) error {
		return s.api.Create(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: s.spec})
	}
	all := func(steps ...func(*scene) error) func(*scene) error {
		return func(s *scene) error {
			for _, step := range steps {
				if err := step(s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, st := range map[string]struct{ shown, since func(*scene) error }{
		"an upgrade is not undone":                           {all(deployAll, settle), all(upgradeAll, settle)},
		"a component that was added at once is not deleted":  {all(deployAll, withoutStrategy, settle), all(addComponent, settle)},
		"what is to leave node by node is not deleted":       {all(deployAll, withoutStrategy, settle, removeComponent), withStrategy},
		"a component of a gr that is deleted is not created": {all(deployAll, settle), halfway(3, deleteHero, all())},
		"a spec that is rejected is not deployed again":      {all(deployAll, settle, upgradeAll, settle), all(reject, settle)},
		"the nodes of a gr that is new keep their labels":    {func(*scene) error { return nil }, all(deployAll, settle)},
		"the nodes of a gr that is back keep their labels":   {all(deployAll, settle, deleteHero), all(settle, deployAll, settle, addComponent, settle)},
		"a gr that is back keeps its own spec":               {all(deployAll, settle), all(deleteHero, settle, empty, settle)},
		"the nodes of another gr keep their labels":          {all(empty, settle, deleteHero), all(addOther, (*scene).label)},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			if err := st.shown(s); err != nil {
				t.Fatal(err)
			}
			shown := s.api.(*memoryAPI).copied()
			if err := st.since(s); err != nil {
				t.Fatal(err)
			}
			before := s.api.(*memoryAPI).portrait()
			s.restart()
			behind := &lag{specMaker: specMaker{rand.New(rand.NewPCG(1, 1))}}
			behind.begin(s)
			for _, kind := range []string{topsv1.GcuResourceKind, "DaemonRollout"} {
				behind.kinds[topsv1.GroupVersion.WithKind(kind)] = shown
			}
			if err := s.turn(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, s.api.(*memoryAPI).portrait()); diff != "" {
				t.Errorf("(-before the pass +after it):\n%s", diff)
			}
		})
	}
}
