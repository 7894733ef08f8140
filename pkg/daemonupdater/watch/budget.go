package watch

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// Each write of a node agent costs the pass of a whole group, so an agent has a budget: so many
// writes within a period wake groups at once. Further ones wait overBudget, and all that come
// meanwhile share one pass. That is more than an agent writes for ten requests with their pulls.
const (
	budgetPeriod = 10 * time.Second
	budgetWrites = 20
	overBudget   = time.Second
)

// budgets are those of node agents, by node. They are safe for concurrent use.
type budgets struct {
	mu    sync.Mutex
	spent map[string]spending
}

// spending is what one agent wrote since the beginning of a period.
type spending struct {
	since  time.Time
	writes int
}

// spend counts a write of an agent, and returns how long it waits, 0 within the budget.
func (b *budgets) spend(node string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spent[node]
	if age := now.Sub(s.since); age < 0 || age >= budgetPeriod {
		maps.DeleteFunc(b.spent, func(_ string, s spending) bool { return now.Sub(s.since).Abs() >= budgetPeriod })
		s = spending{since: now}
	}
	s.writes++
	b.spent[node] = s
	if s.writes <= budgetWrites {
		return 0
	}
	return overBudget
}

// enqueueWithinBudget enqueues the groups that a NodeUpgrade concerns: at once for what the
// operator writes, and within the budget of the node for what its agent writes.
func (w Groups) enqueueWithinBudget() handler.TypedEventHandler[client.Object, observed.Group] {
	type queue = workqueue.TypedRateLimitingInterface[observed.Group]
	spent := &budgets{spent: map[string]spending{}}
	add := func(ctx context.Context, q queue, object client.Object, wait time.Duration) {
		for _, g := range w.AskedFor(ctx, object) {
			q.AddAfter(g, wait)
		}
	}
	return handler.TypedFuncs[client.Object, observed.Group]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object, 0) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*topsv1.NodeUpgrade), e.ObjectNew.(*topsv1.NodeUpgrade)
			wait := time.Duration(0)
			if !changedByOperator(before, after) {
				wait = spent.spend(after.Name, w.Clock())
			}
			add(ctx, q, before, wait) // a request that was taken back
			add(ctx, q, after, wait)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object, 0) },
	}
}

// changedByOperator reports whether a part of a NodeUpgrade changed that the operator writes.
func changedByOperator(before, after *topsv1.NodeUpgrade) bool {
	return before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status.Operation, after.Status.Operation) ||
		!equality.Semantic.DeepEqual(before.Status.History, after.Status.History) ||
		!equality.Semantic.DeepEqual(before.Status.Tasks, after.Status.Tasks)
}
