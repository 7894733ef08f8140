package gcuresource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

func TestAnyWriteAndAnyReadMayFailOnce(t *testing.T) {
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			c := st.undisturbed(t)
			for _, a := range answers() {
				c.each(true, func(what string, s *scene, n int) {
					refuses(true, n, a.err)(s.line)
					_ = s.turn() // a conflict is not an error
					s.line.before = nil
					c.rejoins(t, a.name+" to "+what, s)
				})
			}
			reads := 0
			c.each(false, func(what string, s *scene, n int) {
				a := answers()[reads%len(answers())]
				reads++
				refuses(false, n, a.err)(s.line)
				_ = s.turn()
				s.line.before = nil
				c.rejoins(t, a.name+" to "+what, s)
			})
		})
	}
}

func TestALastingFailureIsReportedAndCleared(t *testing.T) {
	for _, tc := range []struct {
		name  string
		story story
		calls []string
	}{
		{"components cannot be applied", stories[0], []string{"apply", "create"}},
		{"a Secret cannot be read", stories[0], []string{"get Secret"}},
		{"the spec cannot be kept", stories[1], []string{"create ControllerRevision"}},
		{"nodes cannot be listed", stories[1], []string{"list NodeList"}},
		{"what is not wanted any more cannot be deleted", stories[1], []string{"delete"}},
		{"what is not wanted any more cannot leave its nodes", story{"removal", []func(*scene) error{deployAll, removeTwo}}, []string{"apply DaemonSet enflame-gcu-exporter"}},
		{"an earlier spec cannot be restored", stories[2], []string{"patch GcuResource"}},
		{"nothing can be deleted", stories[3], []string{"delete"}},
		{"labels cannot be removed from nodes", stories[3], []string{"patch Node"}},
		{"the finalizer cannot be removed", stories[3], []string{"patch GcuResource"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := tc.story.undisturbed(t)
			for _, a := range answers() {
				s := c.before[0].copied()
				refusesAll(a.err, tc.calls...)(s.line)
				for range 16 {
					_ = s.turn()
					s.now = s.now.Add(patience / 4)
					if err := s.rest.step(); err != nil {
						t.Fatal(err)
					}
				}
				gr := &topsv1.GcuResource{}
				if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); err != nil {
					t.Fatalf("%s: %v", a.name, err)
				}
				if got := world.Standard(gr.Status, status.ConditionDegraded); !strings.HasPrefix(got, "True ") || !strings.Contains(got, a.err.Error()) {
					t.Errorf("%s: Degraded is %q", a.name, got)
				}
				if writes := statusWrites(s.line); writes > 14 {
					t.Errorf("%s: the status was written %d times", a.name, writes)
				}
				s.line.before = nil
				s.now = world.Noon
				c.arrives(t, a.name, s)
			}
		})
	}
}

// removeTwo removes two components that leave node by node.
func removeTwo(s *scene) error {
	return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.DevicePlugin, gr.Spec.Exporter = nil, nil })
}

func statusWrites(l *connection) int {
	n := 0
	for _, c := range l.calls {
		if strings.HasPrefix(c.what, "patch status") {
			n++
		}
	}
	return n
}

func TestOneFailureIsNoTrouble(t *testing.T) {
	c := stories[1].undisturbed(t)
	s := c.before[0].copied()
	refusesAll(errors.New("gone"), "list NodeList")(s.line)
	for range 3 {
		_ = s.turn()
		s.now = s.now.Add(time.Second)
	}
	if n := statusWrites(s.line); n > 0 {
		t.Errorf("the status was written %d times", n)
	}
}
