package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/need"
)

// comparedKinds are the kinds of everything that the operator deploys or writes.
var comparedKinds = append([]schema.GroupVersionKind{component.DaemonSetKind, component.DeploymentKind, component.JobKind,
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("Node"), topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)}, metadataKinds...)

// looks returns what is compared of a real cluster: what carries the label of the gr, and every
// gr, node and pod.
func (s *scene) looks(t *testing.T) compared {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, kind := range comparedKinds {
		var of []client.ListOption
		switch kind.Kind {
		case "Node", "Pod", topsv1.GcuResourceKind:
		default:
			of = append(of, client.MatchingLabels{topsv1.LabelGcuResource: hero})
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.api.List(context.Background(), list, of...); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return look(all)
}

// mistakes are changes of a spec that the API server must reject.
var mistakes = map[string]func(*topsv1.GcuResourceSpec){
	"two names for one plugin": func(s *topsv1.GcuResourceSpec) { s.Plugin, s.DevicePlugin = &topsv1.BaseFields{}, &topsv1.BaseFields{} },
	"whole and shared cards": func(s *topsv1.GcuResourceSpec) {
		s.Plugin, s.DevicePlugin, s.GcushareScheduler = nil, &topsv1.BaseFields{}, &topsv1.BaseFields{}
	},
	"a name in capitals":    func(s *topsv1.GcuResourceSpec) { s.Driver = &topsv1.BaseFields{Name: "Driver"} },
	"a version with spaces": func(s *topsv1.GcuResourceSpec) { s.GFD = &topsv1.BaseFields{Version: "a b"} },
	"an unknown pull policy": func(s *topsv1.GcuResourceSpec) {
		s.Exporter = &topsv1.BaseFields{ImagePullPolicy: "Sometimes"}
	},
	"a volume without a path": func(s *topsv1.GcuResourceSpec) {
		s.Nightingale = &topsv1.NightingaleSpec{MySQLPV: &topsv1.HostPathVolume{Name: "files"}}
	},
}

// refuses fails unless the API server rejects every mistake. It does nothing if there is no gr.
func (s *scene) refuses(t *testing.T) {
	t.Helper()
	for what, mistake := range mistakes {
		err := s.edit(func(gr *topsv1.GcuResource) { mistake(&gr.Spec) })
		if !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// apiSeeds returns the seeds of TestSpecsOnAnAPIServer: SEED, or a few; with make long more, half
// of them fresh.
func apiSeeds(t *testing.T) []uint64 {
	t.Helper()
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	seeds := []uint64{1, 2}
	if need.Long() {
		for i := range uint64(10) {
			seeds = append(seeds, 3+i, 1_000_000+rand.Uint64N(1_000_000_000))
		}
	}
	return seeds
}

// TestSpecsOnAnAPIServer is a sample of TestSimulationOfSpecs on a real API server, which decides
// about field owners, lists with keys and immutable fields.
func TestSpecsOnAnAPIServer(t *testing.T) {
	seeds := apiSeeds(t)
	cluster := newCluster(t)
	s := onAPIServer(t)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{moreNamespace, "enflame", "volcano-system"} {
		cluster.dropNamespace(name)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			t.Cleanup(func() { s.leave(t) })
			s.endsLikeAlone(t, movesThatRun(t, seed))
		})
	}
}

// movesThatRun draws moves until the last spec of them runs when it is deployed alone.
func movesThatRun(t *testing.T, seed uint64) []specMove {
	t.Helper()
	for draw := uint64(1); ; draw++ {
		moves := specMaker{rand.New(rand.NewPCG(seed, draw))}.specMoves()
		alone, err := deployedAlone(t, moves[len(moves)-1].desiredSpec)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := alone.runs(); err == nil && ok {
			return moves
		}
	}
}

// endsLikeAlone plays moves, then the last spec alone, and compares the two.
func (s *scene) endsLikeAlone(t *testing.T, moves []specMove) {
	t.Helper()
	final := moves[len(moves)-1]
	s.restart()
	for _, move := range moves {
		s.refuses(t)
		if err := s.play(move, nil); err != nil {
			t.Fatalf("%v in\n%v", err, moves)
		}
	}
	got := s.looks(t)
	s.leave(t)
	if err := errors.Join(s.make(final.desiredSpec), s.goOn(nil)); err != nil {
		t.Fatal(err)
	}
	if differs := got.differsFrom(s.looks(t)); differs != "" {
		t.Errorf("%v\nend differently than the last alone:\n%s", moves, differs)
	}
}
