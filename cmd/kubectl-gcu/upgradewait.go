package main

import (
	"context"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// startedUpgrade is an upgrade that was written.
type startedUpgrade struct {
	name       string
	generation int64
	// plan is the one that is followed, nil for none.
	plan *plannedUpgrade
}

// awaitUpgrade follows a gr until every reachable node within the limit, or the plan, has what was asked for.
func awaitUpgrade(ctx context.Context, out terminal, cl *cluster, asked startedUpgrade, timeout time.Duration) error {
	written := time.Now()
	return follow(ctx, out, cl, asked.name, timeout, func(ctx context.Context, gr *topsv1.GcuResource, s *display.Status) (bool, error) {
		return limitReached(ctx, out, cl, &asked, gr, &s.Outcome)
	}, func(ctx context.Context, gr *topsv1.GcuResource) (string, error) {
		switch to := gr.Annotations[topsv1.AnnotationRolledBackTo]; {
		case gr.Generation != asked.generation && to != "":
			return "", notYet("gr %s was rolled back to %s; kubectl gcu status %s says why", asked.name, to, asked.name)
		case gr.Generation != asked.generation:
			return "", notYet("the spec of gr %s was changed again by another client", asked.name)
		case asked.plan == nil || time.Since(written) > lookAtLeast: // a rollout that cannot begin has no result of the plan
			return "", nil
		}
		return asked.plan.unseen(ctx)
	})
}

// limitReached reports whether a limited upgrade is complete within its limit or plan, and returns an error if a node there
// remains. The status of the rollout may be of an earlier limit, and is about other nodes too, so this asks for the plan. What
// stops the rollout for another reason than its nodes is left to the status.
func limitReached(ctx context.Context, out terminal, cl *cluster, asked *startedUpgrade, gr *topsv1.GcuResource, o *display.Outcome) (bool, error) {
	limit, err := daemonset.LimitOf(gr.Annotations)
	if err != nil || limit == nil && asked.plan == nil || o.Reason == display.ReasonNotSeen || o.State == display.Stopped && o.Reason != topsv1.ReasonHalted {
		return false, nil //nolint:nilerr // an invalid limit is reported by the status
	}
	prediction, err := cl.predictor().Ask(ctx, preview.Question{Present: gr, Wanted: gr, Approved: true, WithoutEvictions: true})
	if err != nil || prediction.Blocked != "" {
		return false, err
	}
	within := func(node string) bool { return limit.HasNode(node) && asked.plan.hasNode(node) }
	if done, err := nodesReached(&prediction.Rollout, within, o); err != nil || !done {
		return false, err
	}
	if done, err := asked.plan.tasksDone(ctx); err != nil || !done {
		return false, err
	}
	out.say("the limited upgrade is complete; kubectl gcu upgrade %s --all continues with the rest", gr.Name)
	return true, nil
}

// nodesReached reports whether nothing is left to do on the nodes within a limit.
func nodesReached(left *preview.Rollout, within func(node string) bool, o *display.Outcome) (bool, error) {
	if slices.ContainsFunc(left.InFlight, within) || slices.ContainsFunc(left.Nodes, func(n preview.Node) bool { return within(n.Name) }) {
		return false, nil
	}
	for _, n := range left.Left {
		switch reason := rollout.Reason(n.Reason); {
		case !within(n.Name) || reason == rollout.ReasonLeftOut || reason == rollout.ReasonNodeOffline:
		case remains(reason, o):
			return false, notYet("node %s remains: %s; %s", n.Name, n.Reason, n.Message)
		default:
			return false, nil
		}
	}
	return true, nil
}

// remains reports whether a wait is in vain for a node that is not upgraded for this reason. Where the rollout is stopped, its status
// says what to do.
func remains(reason rollout.Reason, o *display.Outcome) bool {
	switch {
	case o.State == display.Stopped || reason.State() == rollout.Pending:
		return false
	case reason == rollout.ReasonPinned || slices.Contains(rollout.FailureReasons, reason):
		return true
	}
	return o.Reason == string(rollout.ReasonLeftOut) // nothing else is under way
}
