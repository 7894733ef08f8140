package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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

// A DaemonSet that the spec no longer asks for takes its pods with it on all nodes. An event says so
// while it is still there, once, and only then.
func TestADaemonSetThatGoesWithItsPodsIsAnnouncedBefore(t *testing.T) {
	tests := []struct {
		name string
		edit func(*topsv1.GcuResource)
		want []string
	}{
		{"removed", func(gr *topsv1.GcuResource) { gr.Spec.Exporter = nil }, []string{"kube-system/enflame-gcu-exporter of component exporter"}},
		{"renamed", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Name = "metrics" }, []string{"kube-system/enflame-gcu-exporter of component exporter"}},
		{"moved", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Namespace = "enflame" }, []string{"kube-system/enflame-gcu-exporter of component exporter"}},
		{"upgraded", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Version = "v2" }, nil},
		{"a Deployment removed", func(gr *topsv1.GcuResource) { gr.Spec.Volcano = nil }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := inMemory(t)
			if err := (story{"", []func(*scene) error{deployAll, func(s *scene) error { return s.edit(tt.edit) }}}).play(s); err != nil {
				t.Fatal(err)
			}
			w := &witness{api: s.api, of: client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}}
			s.gcu.Recorder = w
			if err := s.goOn(nil); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range w.heard {
				if e, found := strings.CutPrefix(e, "Warning RemovedAtOnce, there: the spec no longer asks for DaemonSet "); found {
					got = append(got, strings.Split(e, ":")[0])
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("announced %v, want %v; all events:\n%s", got, tt.want, strings.Join(w.heard, "\n"))
			}
		})
	}
}
