package gcuresource

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// onAPIServer returns a scene on a real API server. It deploys less than one in memory, because
// uncached reads are slow.
func onAPIServer(t *testing.T) *scene {
	t.Helper()
	api, process := testClient(t), testServer(t).Client(t, apiserver.Operator)
	s := newScene(api, process)
	s.spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}, Nightingale: &topsv1.NightingaleSpec{}}
	return s
}

// sight is the visible state of a gr: its status, and the UID and generation of each object by
// name.
type sight struct {
	Objects map[string]int64
	Nodes   map[string]map[string]string
	Status  any
	uids    map[string]types.UID
}

func (s *scene) sees(t *testing.T) sight {
	t.Helper()
	ctx := context.Background()
	all := sight{Objects: map[string]int64{}, Nodes: map[string]map[string]string{}, uids: map[string]types.UID{}}
	kinds := append([]schema.GroupVersionKind{component.DaemonSetKind, component.DeploymentKind,
		appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), corev1.SchemeGroupVersion.WithKind("Secret")}, metadataKinds...)
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.api.List(ctx, list, client.MatchingLabels{topsv1.LabelGcuResource: hero}); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			name := kind.Kind + " " + o.Namespace + "/" + o.Name
			all.Objects[name], all.uids[name] = o.Generation, o.UID
		}
	}
	var nodes corev1.NodeList
	if err := s.api.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		all.Nodes[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	gr := &unstructured.Unstructured{}
	gr.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	err := s.api.Get(ctx, client.ObjectKey{Name: hero}, gr)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if status, ok := gr.Object["status"].(map[string]any); ok {
		withoutTimes(status)
		all.Status = status
	}
	return all
}

// leave deletes the gr, if it exists, with everything that belongs to it.
func (s *scene) leave(t *testing.T) {
	t.Helper()
	s.restart()
	if err := client.IgnoreNotFound(deleteHero(s)); err != nil {
		t.Fatal(err)
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
}

// newCluster returns an API server with the nodes of a scene. The end of the test removes what was
// created.
func newCluster(t *testing.T) *stage {
	t.Helper()
	cluster := &stage{Client: testClient(t), t: t}
	for _, name := range sceneNodes {
		cluster.addNode(name)
	}
	t.Cleanup(func() {
		for _, name := range sceneNodes {
			cluster.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		cluster.remove(nfdCRD())
		for _, clean := range cluster.after {
			clean()
		}
	})
	return cluster
}

// TestAnOperatorThatDiesArrivesOnAnAPIServer is a sample of
// TestAnOperatorThatDiesBetweenAnyTwoWritesArrives on a real API server.
func TestAnOperatorThatDiesArrivesOnAnAPIServer(t *testing.T) {
	cluster := newCluster(t)
	cluster.dropNamespace("enflame")
	for _, st := range stories[:4] {
		t.Run(st.name, func(t *testing.T) {
			s := onAPIServer(t)
			t.Cleanup(func() { s.leave(t) })
			want, writes := st.onAPIServer(t, s, nil)
			s.leave(t)
			n := 2 * writes / 3
			got, _ := st.onAPIServer(t, s, killedAfter(n))
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(sight{})); diff != "" {
				t.Errorf("killed after write %d of %d: the end is another (-undisturbed +got):\n%s", n, writes, diff)
			}
		})
	}
}

// onAPIServer plays a story with a fault in its last step, if any. It returns the state at the
// end, and the number of writes of the last step.
func (st story) onAPIServer(t *testing.T, s *scene, fault func(*connection)) (sight, int) {
	t.Helper()
	s.restart()
	if err := st.play(s); err != nil {
		t.Fatal(err)
	}
	s.line.counts = map[bool]int{}
	var before map[string]types.UID
	if fault != nil {
		fault(s.line)
		for range 30 {
			if err := s.turn(); err != nil {
				break
			}
			if err := s.rest.step(); err != nil {
				t.Fatal(err)
			}
		}
		before = s.sees(t).uids
		s.restart()
	}
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	end := s.sees(t)
	for name, uid := range before {
		if now, there := end.uids[name]; there && now != uid {
			t.Errorf("%s was made again", name)
		}
	}
	return end, s.line.counts[true]
}
