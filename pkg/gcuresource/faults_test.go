package gcuresource

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// TestEveryWriteMayFail lets the API server fail each write once before it
// succeeds, while components of every shape are deployed and deleted.
func TestEveryWriteMayFail(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	for _, tc := range []struct {
		name string
		err  error
		lost bool
	}{
		{"409: the object changed", apierrors.NewConflict(things, "x", errors.New("changed")), false},
		{"429: too many requests", apierrors.NewTooManyRequests("busy", 1), false},
		{"500: trouble in the API server", apierrors.NewInternalError(errors.New("no leader")), false},
		{"a timeout before anything was written", context.DeadlineExceeded, false},
		{"a timeout after it was written", apierrors.NewTimeoutError("no answer", 1), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, "node-1")
			s.dropNamespace("enflame")
			var mu sync.Mutex
			failed := map[string]bool{}
			s.mu.Lock()
			s.fault = func(write string, send func() error) error {
				mu.Lock()
				first := !failed[write]
				failed[write] = true
				mu.Unlock()
				if !first {
					return send()
				}
				if tc.lost {
					return errors.Join(tc.err, send())
				}
				return tc.err
			}
			s.mu.Unlock()
			s.create("shaky", topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}, Nightingale: &topsv1.NightingaleSpec{}})
			s.play("gcushare-device-plugin")
			s.available("enflame", parts...)
			s.reaches("shaky", "Running", "2/2")
			password := s.password("enflame")
			gr := s.gr("shaky")
			var want []string
			for _, r := range render(t, gr) {
				for _, d := range r.Objects {
					want = append(want, d.Ref.String())
				}
			}
			if diff := cmp.Diff(sorted(want), sorted(s.there(gr))); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			mu.Lock()
			clear(failed)
			mu.Unlock()
			s.must(s.Delete(context.Background(), gr))
			s.until("deleting the gr", func() string {
				s.release()
				s.collect("gcushare-device-plugin")
				if s.get(&topsv1.GcuResource{}, "", "shaky") == nil {
					return "it exists"
				}
				return ""
			})
			if diff := cmp.Diff([]string{"Namespace enflame", "Secret enflame/nightingale-mysql"}, sorted(s.there(gr))); diff != "" {
				t.Errorf("left behind (-want +got):\n%s", diff)
			}
			if message := s.marked("node-1", false); message != "" || s.password("enflame") != password {
				t.Errorf("left on the node: %s; password %q, then %q", message, password, s.password("enflame"))
			}
		})
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// there returns the objects of a gr that exist.
func (s *stage) there(gr *topsv1.GcuResource) []string {
	s.t.Helper()
	var list []string
	for _, r := range render(s.t, gr) {
		for _, d := range r.Objects {
			if s.get(metadataOf(component.Ref{GroupVersionKind: d.Ref.GroupVersionKind}), d.Ref.Namespace, d.Ref.Name) == nil {
				list = append(list, d.Ref.String())
			}
		}
	}
	return list
}
