package nodeupgrade

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// A retry of an operation knows which controllers bring their pods back, so that its precheck says it and evicts nothing.
func TestTheNextOperationOfANodeKnowsWhoBringsPodsBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := &evictions{drainer: drain.Drainer{Metrics: drain.NewMetrics(prometheus.NewRegistry())}, attempts: map[string]attempts{}}
	evicted := func(returned bool) eviction.Attempt {
		return eviction.Attempt{Time: now, Outcome: eviction.Outcome{State: eviction.Evicted}, Returned: returned}
	}
	e.keep("n1", "first", eviction.Attempts{"back": evicted(true), "gone": evicted(false)})
	e.keep("n2", "first", eviction.Attempts{"gone": evicted(false)})
	knows := func(node, operation string, now time.Time, want ...types.UID) {
		t.Helper()
		got := e.lastOf(node, operation, now)
		for _, uid := range want {
			if _, known := got[uid]; !known {
				t.Errorf("operation %s of %s does not know of %s", operation, node, uid)
			}
		}
		if len(got) != len(want) {
			t.Errorf("operation %s of %s knows %+v, want %v", operation, node, got, want)
		}
	}
	knows("n1", "first", now, "back", "gone")
	knows("n1", "second", now, "back")
	e.end("n1", now)
	e.end("n2", now)
	e.end("n3", now)
	knows("n1", "second", now, "back")
	knows("n2", "second", now)
	if _, kept := e.attempts["n2"]; kept {
		t.Error("a node is kept of which there is nothing to know")
	}
	e.end("n1", now.Add(25*time.Hour))
	if len(e.attempts) > 0 {
		t.Errorf("what is known of a drain of yesterday is kept: %+v", e.attempts)
	}
}
