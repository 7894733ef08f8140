package agentbudget

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// passes is a queue that only counts: passes that are due at once, and those that may share one.
type passes struct {
	workqueue.TypedRateLimitingInterface[string]
	now    time.Time
	atOnce int
	later  map[time.Time]bool
}

// AddAfter implements the queue.
func (p *passes) AddAfter(_ string, wait time.Duration) {
	if wait == 0 {
		p.atOnce++
	} else {
		p.later[p.now.Add(wait).Truncate(OverBudget)] = true
	}
}

// reporting returns the NodeUpgrade of a node whose agent reports differently each time.
func reporting(node string, n int) *topsv1.NodeUpgrade {
	u := fixture.NodeUpgrade(node)
	u.Status.Host = &topsv1.HostReport{DriverVersion: fmt.Sprint(n)}
	return u
}

// TestAnAgentHasABudget: one writes ten times a second for a minute, another one once meanwhile.
func TestAnAgentHasABudget(t *testing.T) {
	p := &passes{now: fixture.Epoch, later: map[time.Time]bool{}}
	handler := Handler(func() time.Time { return p.now }, func(_ context.Context, o client.Object, _ time.Duration) []string {
		return []string{o.GetName()}
	})
	write := func(before, after *topsv1.NodeUpgrade) {
		handler.Update(context.Background(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, p)
	}
	for n := range 600 {
		write(reporting("hostile", n), reporting("hostile", n+1))
		p.now = p.now.Add(100 * time.Millisecond)
	}
	// Each write enqueues before and after, which one pass serves.
	if got, most := p.atOnce/2+len(p.later), 6*(budgetWrites+10); got > most {
		t.Errorf("600 writes cause %d passes, want %d at most", got, most)
	}
	before := p.atOnce
	write(reporting("other", 0), reporting("other", 1))
	if p.atOnce == before {
		t.Error("what the agent of the other node writes waits")
	}
	for range budgetWrites {
		write(reporting("hostile", 0), reporting("hostile", 600))
	}
	operated := reporting("hostile", 600)
	operated.Status.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("600", topsv1.TaskRunning)}
	before = p.atOnce
	write(reporting("hostile", 600), operated)
	if p.atOnce == before {
		t.Error("what the operator writes about the hostile node waits")
	}
}

// TestAnAgentThatIsCreatedAndDeletedHasABudget: one names an owner that does not exist, so that the garbage collector
// deletes what it creates.
func TestAnAgentThatIsCreatedAndDeletedHasABudget(t *testing.T) {
	p := &passes{now: fixture.Epoch, later: map[time.Time]bool{}}
	handler := Handler(func() time.Time { return p.now }, func(_ context.Context, o client.Object, _ time.Duration) []string {
		return []string{o.GetName()}
	})
	create := func(u *topsv1.NodeUpgrade) { handler.Create(t.Context(), event.CreateEvent{Object: u}, p) }
	remove := func(u *topsv1.NodeUpgrade) { handler.Delete(t.Context(), event.DeleteEvent{Object: u}, p) }
	create(reporting("hostile", 0))
	remove(reporting("hostile", 0))
	if p.atOnce != 2 {
		t.Errorf("a creation and a deletion cause %d passes at once", p.atOnce)
	}
	for n := range 300 {
		create(reporting("hostile", n))
		p.now = p.now.Add(100 * time.Millisecond)
		remove(reporting("hostile", n))
		p.now = p.now.Add(100 * time.Millisecond)
	}
	if got, most := p.atOnce+len(p.later), 6*(budgetWrites+10); got > most {
		t.Errorf("600 creations and deletions cause %d passes, want %d at most", got, most)
	}
	ordered := reporting("hostile", 0)
	ordered.Spec.Operation = &topsv1.NodeOperation{}
	for range budgetWrites {
		create(reporting("hostile", 0))
	}
	before := p.atOnce
	create(ordered)
	remove(ordered)
	if p.atOnce != before+2 {
		t.Error("an operation of the hostile node that comes and goes waits")
	}
}

// TestBudgetsThatAreOverAreForgotten: all of them, once a period, whichever way the clock is set.
func TestBudgetsThatAreOverAreForgotten(t *testing.T) {
	for _, sign := range []time.Duration{1, -1} {
		b := &budgets{spent: map[string]usage{}}
		for _, step := range []struct {
			after time.Duration
			node  string
			kept  int
		}{
			{0, "a", 1}, {budgetPeriod / 2, "b", 2},
			{budgetPeriod, "c", 2}, {budgetPeriod * 19 / 10, "d", 3}, // b is over, and kept until the period of the last look is
			{budgetPeriod * 2, "e", 2}, {budgetPeriod * 3, "e", 1},
		} {
			b.spend(step.node, fixture.Epoch.Add(sign*step.after))
			if len(b.spent) != step.kept {
				t.Errorf("after %s: %v", sign*step.after, b.spent)
			}
		}
	}
}

func TestWhatTheOperatorWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*topsv1.NodeUpgrade)
		want   bool
	}{
		"an order":               {func(u *topsv1.NodeUpgrade) { u.Spec.Operation = &topsv1.NodeOperation{} }, true},
		"a step of an operation": {func(u *topsv1.NodeUpgrade) { u.Status.Operation = &topsv1.OperationStatus{} }, true},
		"the end of one":         {func(u *topsv1.NodeUpgrade) { u.Status.History = []topsv1.OperationRecord{{}} }, true},
		"an answer": {func(u *topsv1.NodeUpgrade) {
			u.Status.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("1", topsv1.TaskDone)}
		}, true},
		"another object": {func(u *topsv1.NodeUpgrade) { u.UID = "another" }, true},
		"a report":       {func(u *topsv1.NodeUpgrade) { u.Status.Host = &topsv1.HostReport{DriverVersion: "1"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := fixture.NodeUpgrade("a")
			tt.change(after)
			if got := ChangedByOperator(fixture.NodeUpgrade("a"), after); got != tt.want {
				t.Errorf("ChangedByOperator = %t", got)
			}
		})
	}
}
