package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// evictions empties nodes, and keeps the last eviction attempts by node. They need not
// survive the process. It is safe for concurrent use.
type evictions struct {
	drainer drain.Drainer

	mu       sync.Mutex
	attempts map[string]attempts
}

// attempts are the last eviction attempts of one operation, or those of earlier ones that count for the next.
type attempts struct {
	operation string
	last      eviction.Attempts
}

// drained reports whether a node is empty, read live. In the precheck, the API server is asked whether
// it would evict the pods, at most as often as they would be evicted.
func (e *evictions) drained(ctx context.Context, f operation.Facts, policy eviction.Policy) (operation.Drained, error) {
	node, op := f.Node.Name, f.Operation
	look, prechecks := e.drainer.Expect, !operation.Prechecked(op)
	if prechecks {
		look = e.drainer.DryRun
	}
	found, err := look(ctx, node, e.policyOf(f, policy, op.DrainAll), e.lastOf(node, op.ID, f.Now), operation.DrainStart(f), f.Now)
	if err == nil && prechecks {
		e.keep(node, op.ID, found.Attempts)
	}
	unjudged := prechecks && len(found.Of(eviction.Failed)) > 0 // later it may pass
	return operation.Drained{Empty: found.Done(), Stuck: found.Stuck() || unjudged, Ending: found.Ending(), Message: found.Message()}, err
}

// evict makes one pass of a drain. Pods that it could not evict show up in the next dry run.
func (e *evictions) evict(ctx context.Context, f operation.Facts, policy eviction.Policy, effect operation.Effect) error {
	node := f.Node.Name
	result, err := e.drainer.Pass(ctx, node, e.policyOf(f, policy, effect.All), e.lastOf(node, effect.Operation, f.Now), operation.DrainStart(f), f.Now)
	if errors.Is(err, drain.ErrUncordoned) {
		return fmt.Errorf("%w: %w", podreplace.ErrChanged, err)
	}
	if err != nil {
		return err
	}
	e.keep(node, effect.Operation, result.Attempts)
	return nil
}

// keep keeps the last eviction attempts of an operation on a node.
func (e *evictions) keep(node, operation string, last eviction.Attempts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempts[node] = attempts{operation, last}
}

// policyOf returns the drain policy of an operation: for a new driver, the pods of users' DaemonSets
// are evicted too.
func (e *evictions) policyOf(f operation.Facts, policy eviction.Policy, all bool) eviction.Policy {
	if all {
		policy = policy.All()
	}
	if op := f.Operation; operation.ReplacesDriver(op) {
		policy = policy.ReplacingDriver(f.Node.Taint == op.ID)
	}
	return policy
}

// users returns the pods of a node that use its cards, except those of the operator's own DaemonSets,
// read live.
func (e *evictions) users(ctx context.Context, f operation.Facts, policy eviction.Policy) ([]string, error) {
	return e.drainer.Users(ctx, f.Node.Name, policy)
}

// staying returns the pods of a node in which processes have a device open, and which its drain leaves
// there or the API server does not have, read live.
func (e *evictions) staying(ctx context.Context, f operation.Facts, policy eviction.Policy) (map[string]string, error) {
	var uids []string
	for i := range f.Host.DeviceHolders {
		uids = append(uids, f.Host.DeviceHolders[i].PodUID)
	}
	return e.drainer.Staying(ctx, f.Node.Name, uids, e.policyOf(f, policy, f.Operation.DrainAll))
}

// lastOf returns the last eviction attempts of an operation on a node, and those of earlier ones that count for it.
func (e *evictions) lastOf(node, operation string, now time.Time) eviction.Attempts {
	e.mu.Lock()
	defer e.mu.Unlock()
	tried := e.attempts[node]
	if tried.operation != operation {
		return tried.last.Carried(now)
	}
	return tried.last
}

// end forgets a node that is no longer drained, but for what counts for its next drain.
func (e *evictions) end(node string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, tried := e.attempts[node]
	if !tried {
		return
	}
	e.drainer.Metrics.Ended(node)
	delete(e.attempts, node)
	if carried := was.last.Carried(now); len(carried) > 0 {
		e.attempts[node] = attempts{last: carried}
	}
}
