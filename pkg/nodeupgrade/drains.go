package nodeupgrade

import (
	"context"
	"sync"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// drains are the evictions that were tried last, by node. They need not survive the
// process. The zero value is ready; it is safe for concurrent use.
type drains struct {
	mu sync.Mutex
	of map[string]drainOf
}

type drainOf struct {
	operation string
	attempts  eviction.Attempts
}

func (d *drains) get(node, operation string) eviction.Attempts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tried := d.of[node]; tried.operation == operation {
		return tried.attempts
	}
	return nil
}

func (d *drains) set(node, operation string, attempts eviction.Attempts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[string]drainOf{}
	}
	d.of[node] = drainOf{operation: operation, attempts: attempts}
}

// forget drops a node, and reports whether it was there.
func (d *drains) forget(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, was := d.of[node]
	delete(d.of, node)
	return was
}

// endDrain says that a node is not being emptied any more.
func (r *Reconciler) endDrain(node string) {
	if r.drains.forget(node) {
		r.Drainer.Metrics.Ended(node)
	}
}

// readDrained looks whether the node is empty, past the cache, when that matters.
func (r *Reconciler) readDrained(ctx context.Context, o *observation) error {
	if !operation.NeedsDrained(o.facts) {
		return nil
	}
	if o.policyErr != nil {
		o.facts.Drained = operation.Drained{Stuck: true, Message: o.policyErr.Error()}
		return nil
	}
	op := o.facts.Record.Operation
	policy := o.policy
	if op.DrainAll {
		policy = policy.All()
	}
	found, err := r.Drainer.Look(ctx, o.node.Name, policy, r.drains.get(o.node.Name, op.ID), drainBegin(op, o.facts.Now), o.facts.Now)
	if err != nil {
		return err
	}
	o.facts.Drained = operation.Drained{Empty: found.Done(), Stuck: found.Stuck(), Message: found.Message()}
	return nil
}

// evict makes one pass of a drain. What it could not do is seen by the next look.
func (r *Reconciler) evict(ctx context.Context, o *observation, e operation.Effect) error {
	if o.policyErr != nil {
		return nil // the record says what is wrong with it
	}
	policy := o.policy
	if e.All {
		policy = policy.All()
	}
	node := o.node.Name
	result, err := r.Drainer.Pass(ctx, node, policy, r.drains.get(node, e.Operation), drainBegin(o.facts.Record.Operation, o.facts.Now), o.facts.Now)
	if err != nil {
		return err
	}
	r.drains.set(node, e.Operation, result.Attempts)
	return nil
}

// drainBegin is when the drain of an operation began.
func drainBegin(op *topsv1.OperationStatus, now time.Time) time.Time {
	for i := range op.Tasks {
		t, err := upgradeplan.ParseTask(op.Tasks[i].Name)
		if err == nil && t.Action == upgradeplan.ActionEvict && op.Tasks[i].StartTime != nil {
			return op.Tasks[i].StartTime.Time
		}
	}
	return now
}
