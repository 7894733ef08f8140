package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gatekeeper"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/globaljobs"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/nodewriter"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/reporter"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// retryStaleCache is the time to the next pass after the cache was found stale.
const retryStaleCache = 50 * time.Millisecond

// retryAvailable is the time to the next pass if a node that was to be replaced before its turn is available: the cache may
// take longer than an event to show it.
const retryAvailable = 5 * time.Second

// releaseInterval is the time to the next pass over a group that no longer has a strategy while slots are held or operations
// have not ended. Their ends are events, which cause an earlier pass.
const releaseInterval = 5 * time.Second

// steps are the steps of a pass, each with its dependencies.
type steps struct {
	groups    groupReader
	fleets    fleetReader
	ledgers   ledgerStore
	pins      pinStep
	pods      podDeleter
	nodes     nodewriter.Writer
	gates     gatekeeper.Gatekeeper
	rollbacks rollbackStep
	globals   globaljobs.Runner
	reports   reporter.Reporter
}

// refresh runs the plan's global tasks that precede the nodes, and reads the changed nodes. On an error the caller must
// read all nodes again.
func (s *steps) refresh(ctx context.Context, p *pass.Pass, changed []string) error {
	s.globals.Before(ctx, p)
	return s.fleets.refresh(ctx, p, changed)
}

// confirmGone confirms live that the DaemonSets and nodes whose slots are given back because they left the group are not in
// it. It returns podreplace.ErrChanged if the caches are stale.
func (s *steps) confirmGone(ctx context.Context, p *pass.Pass) error {
	if err := s.groups.confirmMembersGone(ctx, p); err != nil {
		return err
	}
	return s.fleets.confirmNodesGone(ctx, p)
}

// carryOut stores the ledger, then acts, then reports. While it stores the ledger, it rechecks the DaemonSets that
// are about to lose pods. It returns how long to wait for the next pass if a status that is not urgent or some reports
// are left to write; 0 if none are.
func (s *steps) carryOut(ctx context.Context, p *pass.Pass) (wait time.Duration, err error) {
	if err := s.confirmGone(ctx, p); err != nil {
		return 0, err
	}
	rollback, err := s.rollbacks.decide(ctx, p)
	if err != nil {
		return 0, err
	}
	if rollback.To != nil { // from the next pass on, the plan is not in force, and its result no longer changes
		if _, err := s.reports.PlanResult(ctx, p); denial.IsConflict(err) {
			return 0, err // other errors must not prevent the rollback
		}
	}
	due, unready := s.pods.due(p)
	available, err := s.fleets.Available(ctx, p.Members, unready)
	if err != nil {
		return 0, err
	}
	due = slices.DeleteFunc(due, func(pod rollout.Pod) bool { return available[pod.Node] })
	p.Decision.Operations = slices.DeleteFunc(slices.Clone(p.Decision.Operations), func(o rollout.OperationChange) bool { return available[o.Node] })
	var unchanged map[int]bool
	var check errgroup.Group
	check.Go(func() (err error) {
		unchanged, err = s.pods.recheck(ctx, p, due)
		return err
	})
	wait, err = s.ledgers.store(ctx, p, rollback)
	failed := check.Wait()
	if err != nil {
		return 0, err
	}
	if failed == nil {
		failed = s.pods.delete(ctx, p, due, unchanged)
	}
	fenced := errors.Join(s.pods.fence(ctx, p), s.nodes.Operate(ctx, p), s.nodes.Prepull(ctx, p), s.handleGate(ctx, p))
	undone := s.rollbacks.carryOut(ctx, p, rollback)
	again, reported := s.report(ctx, p)
	if len(available) > 0 {
		again = retry.Sooner(again, retryAvailable)
	}
	return retry.Sooner(wait, again), errors.Join(failed, fenced, undone, reported, p.TaskError)
}

// report writes the conditions of pods, the tasks of NodeUpgrades and the result of the plan. It returns how long to wait
// before writing the rest, 0 if nothing is left.
func (s *steps) report(ctx context.Context, p *pass.Pass) (again time.Duration, err error) {
	more, err := s.reports.Conditions(ctx, p)
	if more {
		again = time.Second
	}
	later, unwritten := s.reports.PlanResult(ctx, p)
	return retry.Sooner(again, later), errors.Join(err, unwritten, s.reports.Answer(ctx, p))
}

// release ends the control over a group that no longer has a strategy: it cleans up its pods and
// nodes, rules out pending deletions, then deletes the rollout. It reports whether the rollout is deleted.
func (s *steps) release(ctx context.Context, p *pass.Pass) (again time.Duration, released bool, err error) {
	if p.Fleet.NodesAtGate() > 0 {
		s.gates.Releases.Changed.AddAll(p.Group) // if they are denied to leave, openGates has to find them when the group has ended
	}
	err = errors.Join(s.confirmGone(ctx, p), s.pods.fence(ctx, p), s.nodes.Operate(ctx, p), s.handleGate(ctx, p))
	if again, failed := s.report(ctx, p); err != nil || failed != nil || again > 0 {
		return again, false, errors.Join(err, failed)
	}
	if p.HoldsSlot() {
		return releaseInterval, false, nil
	}
	if left, err := s.nodes.Cancel(ctx, p.OperationKey()); err != nil || left {
		return releaseInterval, false, err
	}
	log.FromContext(ctx).Info("Deleting DaemonRollout, its GcuResource or DaemonSet no longer has an update strategy", "rollout", p.Group.String())
	as := client.Preconditions{UID: &p.Rollout.UID, ResourceVersion: &p.Rollout.ResourceVersion} // it may have got slots since
	if err := s.ledgers.Delete(ctx, p.Rollout, as); denial.IgnoreNotFound(err) != nil {
		return 0, false, fmt.Errorf("deleting DaemonRollout %s: %w", client.ObjectKeyFromObject(p.Rollout), err)
	}
	return 0, true, nil
}

// handleGate decides about the pods at the gate, if there are any, and carries the decisions out. The ledger must be stored
// before.
func (s *steps) handleGate(ctx context.Context, p *pass.Pass) error {
	if p.Fleet.NodesAtGate() == 0 {
		return nil
	}
	ledger, err := s.ledgers.stillDecides(ctx, p)
	if err != nil {
		return err
	}
	return s.gates.Handle(ctx, p, &ledger.Status)
}

// openGates cancels the operations that are left of a group that is no longer controlled, and releases its pods at the gate:
// those on the changed nodes, or with all, those on all nodes.
func (s *steps) openGates(ctx context.Context, p *pass.Pass, changed []string, all bool) error {
	denied := s.nodes.CancelLeft(ctx, p, changed, all)
	if !s.ledgers.gate.Active() {
		return denied
	}
	var pods []*corev1.Pod
	for _, m := range p.Members {
		indexes := []string{string(m.DaemonSet.UID)}
		if !all {
			indexes = nil
			for _, node := range changed {
				indexes = append(indexes, podsOnNode(m.DaemonSet.UID, node))
			}
		}
		for _, index := range indexes {
			list, err := s.fleets.pods(ctx, m, index)
			if err != nil {
				return err
			}
			pods = append(pods, list...)
		}
	}
	return errors.Join(denied, s.gates.Release(ctx, slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !daemonset.AwaitsUpgrade(pod) })))
}

// abandon cancels the operations of a group that is gone, and answers the requests for it.
func (s *steps) abandon(ctx context.Context, g observed.Group, now time.Time) error {
	_, err := s.nodes.Cancel(ctx, g.OperationKey(s.ledgers.namespace))
	return errors.Join(err, s.reports.AnswerOrphans(ctx, g, now))
}
