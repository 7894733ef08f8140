package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// A manager that is killed during a rollout resumes it after its restart.
func TestAKilledManagerGoesOnWhereItStoppedWithinTheBudget(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	manager := s.startManager(ctx, t)
	f := newDaemonSet(ctx, t, s, "killed", rolling("1"))
	o := f.observe(ctx)
	before := f.uids(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "under way", func(st *topsv1.DaemonRolloutStatus) bool { return st.Updated >= 1 && len(st.InFlight) > 0 })
	manager.Kill()
	s.startManager(ctx, t)
	f.complete(ctx, "app:2", stageNodes)
	deletedExactly(t, o, before)
	atMost(t, o, 1)
}

// A second manager works in parallel with the leader without the lease, as after an
// undetected loss of the lease. The ledger alone keeps them within the budget, and each
// pod is deleted once. Both may send the deletion in the ledger; because it has the
// pod's UID as a precondition, the second one has no effect.
func TestTwoManagersAtOnceStayWithinTheBudget(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	managers := map[string]*harness.Process{"the leader": s.startManager(ctx, t), "the second manager": s.startManager(ctx, t, "--leader-elect=false")}
	f := newDaemonSet(ctx, t, s, "two", rolling("2"))
	o := f.observe(ctx)
	inTurn(ctx, t, slices.Collect(maps.Values(managers))...)
	for version := 2; version <= 5; version++ {
		before, image := f.uids(ctx), fmt.Sprintf("app:%d", version)
		o.Reset()
		f.setImage(ctx, image)
		f.complete(ctx, image, stageNodes)
		deletedExactly(t, o, before)
		atMost(t, o, 2)
	}
	for name, manager := range managers {
		text, err := get(ctx, manager.URL+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, fmt.Sprintf("gcu_rollout_max_unavailable{rollout=%q} 2", "default/"+f.name)) {
			t.Errorf("%s did not decide on this rollout, so the test is inconclusive", name)
		}
	}
}

// frozenTime is how long a manager is frozen, and the pause before the next one.
const frozenTime = 250 * time.Millisecond

// inTurn freezes and thaws processes in turn until the test ends.
func inTurn(ctx context.Context, t *testing.T, processes ...*harness.Process) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	wait := func() {
		select {
		case <-ctx.Done():
		case <-time.After(frozenTime):
		}
	}
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			p := processes[i%len(processes)]
			frozen := p.Freeze()
			wait()
			if err := errors.Join(frozen, p.Thaw()); err != nil {
				t.Errorf("freezing %s: %v", p.Name(), err)
			}
			wait()
		}
	}()
}

// get returns the body of a URL.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return string(text), nil
}
