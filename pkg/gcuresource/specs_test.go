package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/simseeds"
)

// specMove is one action of a user, with what happens to the operator meanwhile.
type specMove struct {
	desiredSpec
	// Anew deletes the gr first.
	Anew bool
	// Turns is how many turns pass until the next move; 0 until there is nothing left to do.
	Turns int
	// Dies is the write after which the operator is killed; 0 if it is not.
	Dies int
	// Lags is true if the operator's cache is behind.
	Lags bool
}

func (m specMove) String() string {
	return fmt.Sprintf("anew %t, turns %d, dies after write %d, lags %t: %s", m.Anew, m.Turns, m.Dies, m.Lags, m.desiredSpec)
}

// specMoves makes a history. Its last move ends when there is nothing left to do.
func (m specMaker) specMoves() []specMove {
	var moves []specMove
	last := desiredSpec{}
	for range 1 + m.IntN(5) {
		move := specMove{Anew: m.one(6), Lags: m.one(3)}
		if m.one(2) {
			move.Turns = 1 + m.IntN(12)
		}
		if m.one(2) {
			move.Dies = 1 + m.IntN(40)
		}
		move.desiredSpec = m.nextSpec(last, move.Anew)
		last = move.desiredSpec
		moves = append(moves, move)
	}
	moves[len(moves)-1].Turns = 0
	return moves
}

// prepared returns a scene in memory with what the specs of a specMaker need.
func prepared(t *testing.T) *scene {
	t.Helper()
	s := inMemory(t)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

// prepare creates the namespace for components, and puts the nodes into pools.
func (s *scene) prepare() error {
	ctx := context.Background()
	errs := []error{s.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: moreNamespace}})}
	for i, name := range sceneNodes {
		node := &corev1.Node{}
		errs = append(errs, s.api.Get(ctx, client.ObjectKey{Name: name}, node))
		before := node.DeepCopy()
		metav1.SetMetaDataLabel(&node.ObjectMeta, "pool", []string{"a", "b"}[i])
		metav1.SetMetaDataLabel(&node.ObjectMeta, "foreign", "label")
		errs = append(errs, s.api.Patch(ctx, node, client.MergeFrom(before)))
	}
	return errors.Join(errs...)
}

// make writes a spec into the gr, which it creates if there is none.
func (s *scene) make(w desiredSpec) error {
	ctx := context.Background()
	gr := &topsv1.GcuResource{}
	err := s.api.Get(ctx, client.ObjectKey{Name: hero}, gr)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return s.api.Create(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: hero, Annotations: w.Settings}, Spec: w.Spec})
	}
	return s.edit(func(gr *topsv1.GcuResource) { gr.Spec, gr.Annotations = w.Spec, w.Settings })
}

// play plays a move.
func (s *scene) play(m specMove, lag *lag) error {
	if lag != nil && (!m.Lags || m.Anew) {
		lag.end(s)
	}
	if m.Anew {
		if err := client.IgnoreNotFound(deleteHero(s)); err != nil {
			return err
		}
		if err := s.goOn(nil); err != nil {
			return err
		}
	}
	if m.Lags && lag != nil && lag.live == nil {
		lag.begin(s)
	}
	if err := s.make(m.desiredSpec); err != nil {
		return err
	}
	if m.Dies > 0 {
		killedAfter(m.Dies)(s.line)
	}
	if lag != nil {
		s.rest.late = func() bool { return lag.one(4) }
	}
	for range max(m.Turns, 8) {
		if lag != nil {
			lag.move()
		}
		if err := s.turn(); errors.Is(err, errKilled) {
			break
		}
		if err := s.rest.step(); err != nil {
			return err
		}
	}
	s.rest.late = nil
	if m.Dies > 0 {
		s.restart()
	}
	if lag != nil && (m.Dies > 0 || m.Turns == 0) {
		lag.end(s)
	}
	if m.Turns > 0 {
		return nil
	}
	return s.goOn(nil)
}

// lag is a cache that is behind, each kind by itself.
type lag struct {
	specMaker
	live  *memoryAPI
	kinds map[schema.GroupVersionKind]*memoryAPI
	// catchesUp is how seldom a kind catches up: once in so many turns.
	catchesUp int
}

// begin lets the operator read from the cache, which shows what is now.
func (l *lag) begin(s *scene) {
	l.live, l.kinds, l.catchesUp = s.api.(*memoryAPI), map[schema.GroupVersionKind]*memoryAPI{}, of(l.specMaker, 3, 12)
	late := cached(interceptor.NewClient(s.line, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			kind, err := apiutil.GVKForObject(o, l.live.scheme)
			if err != nil {
				return err
			}
			return l.view(kind).Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kind, err := apiutil.GVKForObject(list, l.live.scheme)
			if err != nil {
				return err
			}
			kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
			return l.view(kind).List(ctx, list, opts...)
		},
	}))
	s.gcu.Client, s.labeler.Client = late, late
	for _, kind := range []schema.GroupVersionKind{topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind), component.DaemonSetKind, corev1.SchemeGroupVersion.WithKind("Pod")} {
		l.view(kind)
	}
}

// view returns what the cache has of a kind.
func (l *lag) view(kind schema.GroupVersionKind) *memoryAPI {
	if l.kinds[kind] == nil {
		l.kinds[kind] = l.live.copied()
	}
	return l.kinds[kind]
}

// move lets some kinds catch up.
func (l *lag) move() {
	kinds := slices.SortedFunc(maps.Keys(l.kinds), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for _, kind := range kinds {
		if l.one(l.catchesUp) {
			delete(l.kinds, kind)
		}
	}
}

// end lets the operator read what is.
func (l *lag) end(s *scene) {
	s.gcu.Client, s.labeler.Client = cached(s.line), cached(s.line)
	l.live, l.kinds = nil, nil
}

// all returns every object of an API server in memory.
func (m *memoryAPI) all() []*unstructured.Unstructured {
	var list []*unstructured.Unstructured
	for _, e := range m.entries {
		list = append(list, e.object)
	}
	return list
}

// runs reports whether the gr runs.
func (s *scene) runs() (bool, error) {
	gr := &topsv1.GcuResource{}
	err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr)
	return gr.Status.Phase == topsv1.PhaseRunning, err
}

// nameConflict reports whether a component has failed because of its name.
func (s *scene) nameConflict() (bool, error) {
	gr := &topsv1.GcuResource{}
	err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr)
	return slices.ContainsFunc(gr.Status.ResourceStatuses, func(r topsv1.ResourceStatus) bool {
		return r.Status == topsv1.PhaseFailed && strings.Contains(r.Message, " that of ")
	}), err
}

// deployedAlone returns a cluster in which only one spec was deployed.
func deployedAlone(t *testing.T, w desiredSpec) (*scene, error) {
	t.Helper()
	s := prepared(t)
	if err := s.make(w); err != nil {
		return nil, err
	}
	return s, s.goOn(nil)
}

// TestTwoWorkloadsWithOneNameComeToRest has two components, and two parts of one, that want the
// same object.
func TestTwoWorkloadsWithOneNameComeToRest(t *testing.T) {
	named := func() *topsv1.BaseFields { return &topsv1.BaseFields{Name: "same"} }
	for name, spec := range map[string]topsv1.GcuResourceSpec{
		"two components":           {Driver: named(), Toolkit: named()},
		"two parts of nightingale": {Nightingale: &topsv1.NightingaleSpec{Redis: named(), Agentd: named()}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := deployedAlone(t, desiredSpec{Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			gr := &topsv1.GcuResource{}
			if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); err != nil || gr.Status.Phase != topsv1.PhaseFailed {
				t.Errorf("the phase is %s, %v", gr.Status.Phase, err)
			}
		})
	}
}

// TestAGrWhoseComponentsSwapNamesCanBeDeletedAtOnce deletes it before the DaemonSets carry the
// other component's label.
func TestAGrWhoseComponentsSwapNamesCanBeDeletedAtOnce(t *testing.T) {
	named := func(name string) *topsv1.BaseFields { return &topsv1.BaseFields{Name: name} }
	s, err := deployedAlone(t, desiredSpec{Spec: topsv1.GcuResourceSpec{Driver: named("a"), Toolkit: named("b")}})
	swap := desiredSpec{Spec: topsv1.GcuResourceSpec{Driver: named("c"), Toolkit: named("a")}}
	if err := errors.Join(err, s.make(swap), deleteHero(s), s.goOn(nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, &topsv1.GcuResource{}); !apierrors.IsNotFound(err) {
		t.Errorf("the gr exists: %v", err)
	}
}

// TestSimulationOfSpecs applies several specs to one gr, one after the other, some before the
// last one was deployed, with an operator that is killed or has an old cache. The cluster must
// end as if only the last spec had been deployed.
func TestSimulationOfSpecs(t *testing.T) {
	simseeds.Simulation{Name: "specs", Short: 20, Part: 4, Play: playSpecs}.Test(t)
}

func playSpecs(t *testing.T, seed uint64) simseeds.Run {
	m := specMaker{rand.New(rand.NewPCG(seed, 1))}
	run := simseeds.Run{Reached: map[string]int{}}
	moves := m.specMoves()
	final := &moves[len(moves)-1]
	alone, err := deployedAlone(t, final.desiredSpec)
	if err != nil {
		run.Violation = "alone: " + err.Error()
		run.History = []string{final.String()}
		return run
	}
	if ok, err := alone.runs(); err != nil || !ok {
		run.Reached["a last spec that does not run"]++
		return run
	}
	s := prepared(t)
	lag := &lag{specMaker: m}
	budget := s.observed(lag)
	for _, move := range moves {
		run.Steps++
		run.History = append(run.History, move.String())
		if err := s.play(move, lag); err != nil {
			run.Violation = err.Error()
			return run
		}
		if len(budget.violations) > 0 {
			run.Violation = budget.violations[0]
			return run
		}
	}
	if kept, err := s.nameConflict(); kept || err != nil {
		run.Reached["a name that another component has"]++
		return run
	}
	fresh, got := look(alone.api.(*memoryAPI).all()), look(s.api.(*memoryAPI).all())
	run.Violation = got.differsFrom(fresh)
	return run
}
