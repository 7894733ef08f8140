package gcuresource

import (
	"context"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
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
