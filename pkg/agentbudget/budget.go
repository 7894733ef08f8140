// Package agentbudget bounds what the writes of one node agent cost the controllers that watch
// NodeUpgrades: a hostile or broken agent delays its own node, not the others.
package agentbudget

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Each write of a node agent may cost a pass over the fleet, so an agent has a budget: so many
// writes within a period wake passes at once. Further ones wait OverBudget, and all that come
// meanwhile share one pass. That is more than an agent writes for ten requests with their pulls.
const (
	budgetPeriod = 10 * time.Second
	budgetWrites = 20
	OverBudget   = time.Second
)

// budgets are those of node agents, by node. They are safe for concurrent use.
type budgets struct {
	mu    sync.Mutex
	spent map[string]usage
	// pruned is when those that are over were last forgotten.
	pruned time.Time
}

// usage is what one agent wrote since the beginning of a period.
type usage struct {
	since  time.Time
	writes int
}

// spend counts a write of an agent, and returns how long it waits, 0 within the budget.
func (b *budgets) spend(node string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spent[node]
	if age := now.Sub(s.since); age < 0 || age >= budgetPeriod {
		b.prune(now)
		s = usage{since: now}
	}
	s.writes++
	b.spent[node] = s
	if s.writes <= budgetWrites {
		return 0
	}
	return OverBudget
}

// prune forgets the budgets that are over, once a period: a manager that starts sees all nodes in one.
func (b *budgets) prune(now time.Time) {
	if now.Sub(b.pruned).Abs() < budgetPeriod {
		return
	}
	maps.DeleteFunc(b.spent, func(_ string, s usage) bool { return now.Sub(s.since).Abs() >= budgetPeriod })
	b.pruned = now
}

// Handler enqueues what a NodeUpgrade concerns: at once for what the operator writes, and within the
// budget of the node for what its agent writes. An agent creates its NodeUpgrade, and has it deleted
// by naming an owner that does not exist; only what has an operation is certainly the operator's.
// requests is called with every event, and with how long what it returns waits.
func Handler[R comparable](now func() time.Time, requests func(context.Context, client.Object, time.Duration) []R) handler.TypedEventHandler[client.Object, R] {
	type queue = workqueue.TypedRateLimitingInterface[R]
	spent := &budgets{spent: map[string]usage{}}
	add := func(ctx context.Context, q queue, object client.Object, wait time.Duration) {
		for _, r := range requests(ctx, object, wait) {
			q.AddAfter(r, wait)
		}
	}
	comesOrGoes := func(ctx context.Context, q queue, object client.Object) {
		wait := time.Duration(0)
		if object.(*topsv1.NodeUpgrade).Spec.Operation == nil {
			wait = spent.spend(object.GetName(), now())
		}
		add(ctx, q, object, wait)
	}
	return handler.TypedFuncs[client.Object, R]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object], q queue) {
			comesOrGoes(ctx, q, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
			before, after := e.ObjectOld.(*topsv1.NodeUpgrade), e.ObjectNew.(*topsv1.NodeUpgrade)
			wait := time.Duration(0)
			if !ChangedByOperator(before, after) {
				wait = spent.spend(after.Name, now())
			}
			add(ctx, q, before, wait) // a request that was taken back
			add(ctx, q, after, wait)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[client.Object], q queue) {
			comesOrGoes(ctx, q, e.Object)
		},
	}
}

// ChangedByOperator reports whether a part of a NodeUpgrade changed that the operator writes.
func ChangedByOperator(before, after *topsv1.NodeUpgrade) bool {
	return before.UID != after.UID || !same(&before.Spec, &after.Spec) ||
		!same(before.Status.Operation, after.Status.Operation) ||
		!same(before.Status.History, after.Status.History) ||
		!same(before.Status.Tasks, after.Status.Tasks)
}

// same is semantic equality. Most parts do not differ at all: then reflect finds out several times faster.
func same(before, after any) bool {
	return reflect.DeepEqual(before, after) || equality.Semantic.DeepEqual(before, after)
}
